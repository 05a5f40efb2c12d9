package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// fencing is what this incarnation has done for a fence record.
type fencing struct {
	begun bool          // a Fence is in progress
	done  time.Duration // when the storage began to refuse it; 0: not yet
	retry time.Duration // not before this time
}

// writeFence adds the fence record to a transaction that ends an incarnation. If last is not zero, the transaction must
// compare the last heartbeat.
func writeFence(t *state.Txn, m *Member, last state.Revision) {
	key := fenceKey(m.Incarnation)
	f := FenceRecord{Version: version, Name: m.Name, Incarnation: m.Incarnation, Storage: m.Storage, Beat: last}
	t.If = append(t.If, state.Compare{Key: key})
	t.Then = append(t.Then, put(key, encode(f, nil)))
}

// expel ends the registration of a gateway that was silent for a term, that is to fail, or that was given a group just
// as it left.
func (e *Engine) expel() *state.Txn {
	for i := range e.view.members {
		m := &e.view.members[i]
		inc := m.value.Incarnation
		if m.err != nil || inc == e.inc || e.view.fence(inc) != nil {
			continue
		}
		if m.value.Ended {
			if e.view.owns(inc) {
				return e.expulsion(m, true)
			}
			continue
		}
		if isToFail(e, m) {
			return e.expulsion(m, true)
		}
		silent := e.silentAt(inc)
		if e.now < silent {
			e.at(silent)
		} else if e.judges() {
			return e.expulsion(m, false)
		}
	}
	return nil
}

// isToFail reports whether the administrator wants a gateway to fail. It is false for an incarnation that begins after
// one was ended by that command.
func isToFail(e *Engine, m *entry[Member]) bool {
	for i := range e.commands {
		c := &e.commands[i]
		if c.Kind == FailGateway && c.Gateway == m.value.Name && (c.victim == "" || c.victim == m.value.Incarnation) {
			c.victim = m.value.Incarnation
			return true
		}
	}
	return false
}

// expulsion also compares the heartbeat, unless the gateway must end whether it is alive or not.
func (e *Engine) expulsion(m *entry[Member], anyway bool) *state.Txn {
	own := e.own()
	t := state.Txn{If: []state.Compare{{Key: own.Key, Revision: own.Revision}, {Key: m.Key, Revision: m.Revision}}}
	var last state.Revision
	if !anyway {
		c := e.view.beats.is(beatKey(m.value.Name))
		t.If, last = append(t.If, c), c.Revision
	}
	writeFence(&t, &m.value, last)
	ended := m.value
	ended.Ended = true
	t.Then = append(t.Then, put(m.Key, encode(ended, m.Value)))
	if !m.value.Ended {
		t.Then = append(t.Then, e.view.relist(e.cfg.Name))
	}
	return &t
}

// startFences fences the incarnations from which this gateway is to take groups. The planner fences all others too, so
// that none of their writes takes effect later.
func (e *Engine) startFences() {
	mine := map[Incarnation]bool{}
	for _, o := range (takeover{e}).assigned() {
		if o.fence != nil && o.backend == Fenced {
			mine[o.fence.value.Incarnation] = true
		}
	}
	for i := range e.view.fences { // hosts wait for these: they have no turn
		if f := &e.view.fences[i]; f.err == nil && mine[f.value.Incarnation] {
			e.fence(&f.value)
		}
	}
	if !e.planner() {
		return
	}
	room := mostFences - e.fences.begun()
	for i := range e.view.fences {
		if f := &e.view.fences[i]; f.err == nil && !f.value.Done && room > 0 && e.fence(&f.value) {
			room--
		}
	}
}

// mostFences is the number of fences for which no takeover waits that are in progress at a time, and mostRenewals how many
// of them may be repetitions. Each one occupies the storage's client and its monitors, and a new planner repeats all: a
// gateway that crashes again and again leaves thousands.
const (
	mostFences   = 8
	mostRenewals = 6
)

// manyFences is the number of fences of one gateway from which on they are reported.
const manyFences = 20

// count reports gateways that have left many fences.
func (fences) count(e *Engine) {
	if len(e.view.fences) < manyFences || !e.planner() {
		return
	}
	all := map[string]int{}
	for i := range e.view.fences {
		if f := &e.view.fences[i]; f.err == nil {
			all[f.value.Name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := all[name]; n >= manyFences {
			e.alarm(Alarm{Kind: AlarmFences, Gateway: name, Text: fmt.Sprintf("gateway %s has ended %d times without leaving the group, and its fences are repeated until it is removed: "+
				"see its log for the reason; stop it, and when none of its processes is running, use nvmeof gateway remove %s", name, n, name)})
		}
	}
}

// renewFences repeats fences before the storage forgets them, whether or not the store answers.
func (e *Engine) renewFences() {
	if e.stage != member || !e.planner() {
		return
	}
	room := mostRenewals - e.fences.begun()
	for i := range e.view.fences {
		f := &e.view.fences[i]
		if f.err != nil || f.value.Gone || !f.value.Done && e.fences[f.value.Incarnation] == nil {
			continue
		}
		if room > 0 && e.fence(&f.value) {
			room--
		}
		if e.fences.hold(f.value.Incarnation, e.now, e.cfg.FenceRenew) {
			e.at(e.fences[f.value.Incarnation].done + e.cfg.FenceRenew)
		}
	}
}

// fence starts a fence unless this gateway has a recent one, and reports whether it did.
func (e *Engine) fence(f *FenceRecord) bool {
	if len(f.Storage) == 0 {
		return false
	}
	s := e.fences[f.Incarnation]
	if s == nil {
		s = &fencing{}
		e.fences[f.Incarnation] = s
	}
	switch {
	case s.begun || e.fences.hold(f.Incarnation, e.now, e.cfg.FenceRenew):
	case e.now < s.retry:
		e.at(s.retry)
	default:
		s.begun = true
		e.act(Fence{f.Name, f.Incarnation, f.Storage})
		return true
	}
	return false
}

// fences are the fences of this incarnation, by fenced incarnation.
type fences map[Incarnation]*fencing

// begun returns how many are in progress.
func (f fences) begun() (n int) {
	for _, s := range f {
		if s.begun {
			n++
		}
	}
	return n
}

// hold reports whether this gateway itself has fenced inc, at most a given time ago. Then its storage clients know of
// the fence.
func (f fences) hold(inc Incarnation, now, most time.Duration) bool {
	s := f[inc]
	return s != nil && s.done > 0 && now < s.done+most
}

func (e *Engine) fenceResult(ev FenceResult) {
	s := e.fences[ev.Incarnation]
	if s == nil || !s.begun {
		return
	}
	s.begun = false
	if ev.Err != nil {
		s.retry = e.now + 2*e.cfg.Interval
		e.health(true)
		text := "cannot fence gateway incarnation " + string(ev.Incarnation) + ", so its ANA groups are not taken over yet: " + ev.Err.Error()
		e.alarm(Alarm{Kind: AlarmFence, Gateway: e.cfg.Name, Text: text})
		return
	}
	s.done = max(e.now, 1)
	e.health(false)
}

// noteFences records the results of fences, and removes records that are no longer needed.
func (e *Engine) noteFences() *state.Txn {
	var c change
	first := e.planner()
	for i := range e.view.fences {
		f := &e.view.fences[i]
		if f.err != nil || c.full() {
			continue
		}
		inc, next := f.value.Incarnation, f.value
		next.Done = next.Done || e.fences.hold(inc, e.now, e.cfg.FenceRenew)
		next.Gone = next.Gone || len(next.Storage) > 0 && (slices.Contains(e.past, inc) || slices.Contains(e.gone, inc))
		switch {
		case first && (next.Gone && next.Done || len(next.Storage) == 0) && !e.view.owns(inc): // without storage clients there is nothing to refuse
			c.remove(f.Key, f.Revision)
		case next.Done != f.value.Done || next.Gone != f.value.Gone:
			c.compare(f.Key, f.Revision)
			c.put(f.Key, encode(next, f.Value))
		}
	}
	return c.txn()
}
