package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An exchange is the state of the communication with the store: at most one Get of each prefix, one change, and one
// heartbeat are in progress.
type exchange struct {
	token  uint64 // the last one used
	change uint64 // of the change in progress; 0: none

	all   reading // GroupPrefix
	beats reading // BeatPrefix

	refusal refusal
}

// A reading is the state of the reads of one prefix.
type reading struct {
	token    uint64        // of the read in progress; 0: none
	due      time.Duration // when the next one begins
	obsolete uint64        // results up to this token are outdated
	fresh    bool          // the view includes everything that this gateway has changed
	at       time.Duration // when the last result arrived
	floor    floor         // for the read in progress
}

// settled reports whether the view is recent enough for decisions.
func (x *exchange) settled() bool { return x.change == 0 && x.all.fresh && x.beats.fresh }

// restart forgets what is in progress: it belongs to another incarnation.
func (x *exchange) restart(now time.Duration) {
	x.change = 0
	x.all.outdated(x.token, now)
	x.beats.outdated(x.token, now)
}

// outdated discards all results of reads that began before now.
func (r *reading) outdated(token uint64, now time.Duration) {
	r.fresh, r.obsolete, r.due, r.token = false, token, now, 0
}

func (x *exchange) next() uint64 {
	x.token++
	return x.token
}

// commit begins a change.
func (e *Engine) commit(t state.Txn) {
	e.store.change = e.store.next()
	e.act(Txn{e.store.change, t})
}

// read begins the reads that are due. All entries except heartbeats are also read from time to time without a notice of
// change.
func (e *Engine) read() {
	for _, r := range []*reading{&e.store.all, &e.store.beats} {
		switch {
		case r.token != 0:
		case e.now < r.due:
			e.at(r.due)
		case r == &e.store.all && e.store.change != 0: // the change makes another read necessary
		default:
			r.token, r.floor = e.store.next(), lossDetector{e}.floor()
			prefix := BeatPrefix
			r.due = e.now + e.cfg.Interval
			if r == &e.store.all {
				prefix, r.due = GroupPrefix, e.now+4*e.cfg.Interval
			}
			e.act(Get{r.token, prefix})
		}
	}
}

func (e *Engine) got(ev Got) {
	r, all := &e.store.beats, ev.Token == e.store.all.token
	if all {
		r = &e.store.all
	}
	if ev.Token == 0 || r.token != ev.Token || ev.Token <= r.obsolete {
		return
	}
	r.token = 0
	if ev.Err != nil {
		e.store.refusal.unread(e.now)
		r.due = e.now + e.cfg.Interval/2
		return
	}
	r.at = e.now
	if w := (lossDetector{e}); w.missed(r.floor, ev.Snapshot) {
		w.lose() // decides nothing from what else was read
		return
	}
	e.loss.sees(ev.Snapshot.Revision)
	r.fresh = true
	if all {
		e.view.read(ev.Snapshot)
		e.turnovers.read(&e.view, e.inc, e.now)
		e.listen()
		return
	}
	e.view.beats = e.view.beats.replaced(ev.Snapshot.Entries, BeatPrefix)
	e.weigh()
	e.beats.settle(e.view.beats.revision(beatKey(e.cfg.Name)))
	e.listen()
}

func (e *Engine) committed(ev Committed) {
	e.store.refusal.tried(e.now, ev.Err)
	switch ev.Token {
	case 0:
	case e.beats.token:
		e.beaten(ev)
	case e.store.change:
		e.store.change = 0
		if ev.Err == nil {
			e.loss.sees(ev.Result.Revision)
		}
		e.store.all.outdated(e.store.token, e.now)
		if ev.Err != nil || !ev.Result.Done {
			e.store.beats.outdated(e.store.token, e.now)
		}
		if ev.Err != nil { // the store is asked again, but not at once
			e.store.all.due = e.now + e.cfg.Interval/4
		}
	}
}
