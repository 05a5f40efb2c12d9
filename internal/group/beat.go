package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// beating is the state of this gateway's own heartbeats.
type beating struct {
	token    uint64 // of the heartbeat in progress; 0: none
	sent     time.Duration
	next     time.Duration
	count    uint64
	revision state.Revision // of the last heartbeat
	carried  state.Revision // of the last heartbeat known to have been executed; 0: none, or the store has lost it
	unsure   bool           // the revision of the last heartbeat is unknown: heartbeats must be read first

	through    bool          // a heartbeat was executed
	last       time.Duration // when that was known
	silentFrom time.Duration // start of the silence of others, at the earliest
	until      time.Duration // end of the lease
}

// beat sends a heartbeat when it is due. A heartbeat compares the revision of the previous one, so that a late or
// repeated execution changes nothing.
func (e *Engine) beat() {
	b := &e.beats
	own := e.own()
	switch {
	case e.stage != member || b.token != 0 || b.unsure || own == nil:
		return
	case e.now < b.next:
		e.at(b.next)
		return
	}
	b.count++
	b.token, b.sent, b.next = e.store.next(), e.now, e.now+e.cfg.Interval
	key := beatKey(e.cfg.Name)
	v := Beat{Version: version, Incarnation: e.inc, Count: b.count, Sick: e.isSick(), Stuck: e.stuck, Starting: e.starting && !e.stuck}
	if len(e.loads) > 0 {
		v.Loads = e.loads
	}
	if len(e.sizes) > 0 {
		v.Sizes = e.sizes
	}
	e.act(Txn{b.token, state.Txn{
		If:   []state.Compare{{Key: own.Key, Revision: own.Revision}, {Key: key, Revision: b.revision}},
		Then: []state.Op{put(key, encode(v, e.view.beats.raw(key)))},
	}})
}

// settle notes the revision of the own heartbeat as read from the store.
func (b *beating) settle(r state.Revision) {
	if b.token == 0 && (b.unsure || !b.through) {
		b.revision, b.unsure = r, false
	}
}

// beaten handles the result of a heartbeat. An executed heartbeat proves that this gateway still owned its groups at
// some time after it was sent.
func (e *Engine) beaten(ev Committed) {
	b := &e.beats
	b.token = 0
	if ev.Err != nil || !ev.Result.Done {
		b.unsure, b.next = true, e.now
		e.store.beats.outdated(e.store.token, e.now)
		e.store.all.due = e.now
		if ev.Err != nil {
			e.store.beats.due = e.now + e.cfg.Interval/4
			e.store.all.due = e.store.beats.due
		}
		return
	}
	b.revision, b.carried = ev.Result.Revision, ev.Result.Revision
	e.loss.sees(b.revision)
	if !b.through || e.now-b.last > 3*e.cfg.Interval {
		b.silentFrom = e.now
	}
	b.through, b.last = true, e.now
	if until := b.sent + e.cfg.LeaseTerm/10*9; until > b.until && e.groups.leases() {
		b.until = until
		e.act(Extend{until})
	}
}

// An observation is what this gateway has seen of the heartbeats of an incarnation.
type observation struct {
	revision state.Revision
	at       time.Duration // when its present revision was first seen
	beaten   bool          // it has changed since the first one
	ended    time.Duration // when the fence record was first seen; 0: there was none
}

// listen compares heartbeats with those seen before.
func (e *Engine) listen() {
	if !e.store.all.fresh || !e.store.beats.fresh {
		return // without a new read nothing can have changed
	}
	next := make(map[Incarnation]observation, len(e.view.members))
	for i := range e.view.members {
		m := &e.view.members[i]
		if m.err != nil || m.value.Ended {
			continue
		}
		inc, p := m.value.Incarnation, observation{at: e.now}
		old, known := e.observed[inc]
		if b := e.view.beats.find(beatKey(m.value.Name)); b != nil && b.value.Incarnation == inc {
			p.revision = b.Revision
		}
		if known && old.revision == p.revision {
			p = old
		} else {
			p.beaten = known
		}
		next[inc] = p
	}
	for i := range e.view.fences {
		inc := e.view.fences[i].value.Incarnation
		p, known := e.observed[inc]
		if !known {
			p.at = e.now
		}
		if p.ended == 0 {
			p.ended = max(e.now, 1)
		}
		next[inc] = p
	}
	e.observed = next
}

// judges reports whether this gateway may judge others: its own heartbeats are executed, and its view is recent.
func (e *Engine) judges() bool {
	recent := e.now - 2*e.cfg.Interval
	return e.beats.through && e.beats.last >= recent && e.store.beats.at >= recent
}

// silentAt returns the time at which an incarnation has been silent for a term.
func (e *Engine) silentAt(inc Incarnation) time.Duration {
	return max(e.observed[inc].at, e.beats.silentFrom) + e.cfg.Term
}

// alive reports whether a gateway is registered and has not been silent for a term.
func (e *Engine) alive(m *entry[Member]) bool {
	return m.err == nil && !m.value.Ended && (m.value.Incarnation == e.inc || e.now < e.silentAt(m.value.Incarnation))
}
