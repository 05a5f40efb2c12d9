package group

import (
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A held group is one that this incarnation owns according to the store, and that the target knows.
type held struct {
	epoch    uint64
	backend  Backend
	phase    holding
	since    time.Duration // start of the phase
	retry    time.Duration // opening: when to ask the target again; 0: it has not answered
	refused  bool          // a move was given up and must be deleted
	used     bool          // it was served in this epoch: some of its commands may be in progress
	turnover turnover      // until it is served for the first time
}

// A holding is a phase in the service of a group.
type holding int

const (
	opening  holding = iota // the target was asked to serve it
	serving                 // the target serves it
	lapsed                  // the lease has ended: it was stopped, and may continue in the same epoch
	draining                // the target was asked to drain it
	drained                 // drained. It may have been offered to others, so it is not served again in this epoch
)

// holdings are the groups that an incarnation holds.
type holdings map[ID]*held

func (h holdings) ids() []ID {
	all := make([]ID, 0, len(h))
	for id := range h {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// dropUnowned stops groups that this incarnation no longer owns according to the store.
func (h holdings) dropUnowned(e *Engine) {
	for _, id := range h.ids() {
		o := e.view.owner(id)
		if o != nil && o.err != nil && !errors.Is(o.err, errLater) {
			continue // it is damaged: no other gateway takes it, and the administrator who repairs it finds it served
		}
		if o == nil || o.value.Phase != Owned || o.value.Incarnation != e.inc || o.value.Epoch != h[id].epoch {
			e.drop(id)
		}
	}
}

// reconcile starts and stops groups according to the store.
func (e *Engine) reconcile() {
	e.held.dropUnowned(e)
	for i := range e.view.owners {
		o := &e.view.owners[i]
		id, ok := ownerID(o.Key)
		if !ok || o.err != nil || o.value.Phase != Owned || o.value.Incarnation != e.inc {
			continue
		}
		h := e.held[id]
		if h == nil {
			h = newHeld(&o.value, e.groups.find(id), e.now)
			if e.latest[id] > h.epoch { // the store was changed by hand; the target does not accept an earlier epoch
				h.phase = drained
			}
			e.latest[id] = max(e.latest[id], h.epoch)
			h.turnover, e.held[id] = e.turnovers.of(id, o.value.Reason, e.now), h
		} else if e.view.move(id) == nil {
			delete(e.turnovers, id) // of a move that was given up
		}
		if h.phase == lapsed && (h.backend != Lease || e.now < e.beats.until) {
			e.serve(id, h)
		}
	}
}

// newHeld returns the initial state of a group that this incarnation owns. If the group is not configured here (g is
// nil), or has a different backend, and another gateway has given it to this one, it counts as drained: it was never
// served.
func newHeld(o *Owner, g *Group, now time.Duration) *held {
	h := &held{epoch: o.Epoch, backend: o.Backend, phase: drained, since: now}
	if g != nil && !h.isOther(g) {
		h.backend, h.phase = g.Backend, lapsed
	}
	return h
}

// isOther reports whether the configured backend differs from the one with which the group is owned in the store. The
// latter determines how it is served and how other gateways succeed the owner, so the group must be owned anew.
func (h *held) isOther(g *Group) bool {
	return h.backend != g.Backend && h.backend != None && g.Backend != None
}

// epochs are the last epochs in which this process has owned groups.
type epochs map[ID]uint64

// after returns the epoch that follows epoch, and all epochs in which this process has owned the group. So it is not
// lower even if the owner's value was removed, or restored from a copy.
func (all epochs) after(epoch uint64, id ID) uint64 { return max(epoch, all[id]) + 1 }

func (e *Engine) serve(id ID, h *held) {
	h.phase, h.since, h.retry = opening, e.now, 0
	e.act(Serve{id, h.epoch, h.backend})
}

// drop stops the service of a group that no longer belongs to this incarnation.
func (e *Engine) drop(id ID) {
	if h := e.held[id]; h.phase != drained && h.phase != lapsed {
		e.act(Stop{id, h.epoch})
	}
	delete(e.held, id)
}

func (e *Engine) served(ev Served) {
	h := e.held[ev.Group]
	if h == nil || h.epoch != ev.Epoch || h.phase != opening {
		return
	}
	if ev.Err != nil {
		h.retry = e.now + e.cfg.Interval
		e.alarm(Alarm{Kind: AlarmServe, Gateway: e.cfg.Name, Group: ev.Group, Text: ev.Err.Error()})
		return
	}
	h.phase, h.since, h.used = serving, e.now, true
	e.progress = e.now
	if t := h.turnover; t.reason != "" {
		e.act(Took{Group: ev.Group, Epoch: h.epoch, Reason: t.reason, Duration: e.now - t.since})
	}
	h.turnover = turnover{}
}

func (e *Engine) drained(ev Drained) {
	h := e.held[ev.Group]
	if h == nil || h.epoch != ev.Epoch || h.phase != draining {
		return
	}
	if ev.Err != nil {
		e.drainFailed(ev.Group, ev.Err.Error())
		return
	}
	h.phase, h.since = drained, e.now
	e.progress = e.now
}

// mostTurns limits how long a group waits while others are served and drained, in units of DrainTimeout.
const mostTurns = 6

// over returns when a group has been opening or draining for too long. Until the target has answered it may be working
// on other groups: a gateway that takes over thousands of namespaces needs longer for all of them than for one. Without
// this allowance it would give away groups that it has not reached yet, and so would the next gateway.
func (h *held) over(progress, timeout time.Duration) time.Duration {
	since := h.since
	if h.retry == 0 {
		since = min(max(since, progress), since+(mostTurns-1)*timeout)
	}
	return since + timeout
}

// lapse stops groups whose lease has ended.
func (e *Engine) lapse() {
	for _, id := range e.held.ids() {
		h := e.held[id]
		if h.backend != Lease || h.phase == drained || h.phase == lapsed {
			continue
		}
		if e.now < e.beats.until {
			e.at(e.beats.until)
			continue
		}
		e.act(Stop{id, h.epoch})
		h.phase, h.since = lapsed, e.now
	}
}

// timeouts limits the duration of each phase.
func (e *Engine) timeouts() {
	for _, id := range e.held.ids() {
		h := e.held[id]
		if h == nil { // the incarnation has ended meanwhile
			return
		}
		over := h.over(e.progress, e.cfg.DrainTimeout)
		switch h.phase {
		case draining:
			if e.now >= over {
				e.drainFailed(id, "commands in progress did not end in time")
			} else {
				e.at(over)
			}
		case opening:
			e.openTimeout(id, h, over)
		}
	}
	if e.leaving > 0 && e.stage != outside && e.stage != left {
		if over := e.leaving + e.cfg.LeaveTimeout; e.now >= over || e.stage == joining {
			e.quit("the gateway is leaving the group")
		} else {
			e.at(over)
		}
	}
}

// openTimeout asks the target again. After the timeout it lets another gateway try, if there is one: at once if none of
// the group's commands can be in progress.
func (e *Engine) openTimeout(id ID, h *held, over time.Duration) {
	if e.now >= over {
		h.since, over = e.now, e.now+e.cfg.DrainTimeout
		switch {
		case h.backend == None || best(e.candidates(), e.groups.find(id), e.cfg.Name) == nil:
		case h.used:
			e.drain(id, h)
			return
		default:
			e.act(Stop{id, h.epoch})
			h.phase = drained
			return
		}
	}
	switch {
	case h.retry == 0:
	case e.now >= h.retry:
		h.retry = 0
		e.act(Serve{id, h.epoch, h.backend})
	default:
		e.at(h.retry)
	}
	e.at(over)
}

// startDrains begins to give back groups that are to move, that are no longer configured, or whose backend has changed.
func (e *Engine) startDrains() {
	for _, id := range e.held.ids() {
		h, m := e.held[id], e.view.move(id)
		g := e.groups.find(id)
		removed := g == nil || h.isOther(g)
		switch again := h.since + e.cfg.DrainTimeout; {
		case removed && h.refused && e.now < again:
			e.at(again)
			continue
		case !removed && (m == nil || m.err != nil):
			h.refused = false
			continue
		case h.phase != serving && h.phase != opening, !removed && (h.refused || m.value.To == e.cfg.Name):
			continue
		}
		e.drain(id, h)
	}
}

func (e *Engine) drain(id ID, h *held) {
	h.phase, h.since = draining, e.now
	e.act(Drain{id, h.epoch})
	e.at(e.now + e.cfg.DrainTimeout)
}

// drainFailed handles a drain that does not end: the move is given up. If the group has to go, the incarnation ends, so
// that other gateways fence what is in progress.
func (e *Engine) drainFailed(id ID, why string) {
	h, m := e.held[id], e.view.move(id)
	e.alarm(Alarm{Kind: AlarmDrain, Gateway: e.cfg.Name, Group: id, Text: why})
	if m != nil && m.value.Must {
		e.quit("an ANA group that must move could not be drained: " + why)
		return
	}
	h.refused = true
	e.serve(id, h)
}

// handOver gives drained groups to their next owners.
func (e *Engine) handOver() *state.Txn {
	own := e.own()
	var c change
	var cs []*candidate
	for _, id := range e.held.ids() {
		h, key := e.held[id], ownerKey(id)
		if h.phase != drained || c.full() {
			continue
		}
		if cs == nil {
			cs = e.candidates()
		}
		o := e.view.owners.find(key)
		next := Owner{Version: version, Epoch: e.latest.after(h.epoch, id), Phase: Free, Backend: h.backend}
		if g := e.groups.find(id); g != nil {
			next.Backend = g.Backend
		}
		if to := e.successor(cs, id, h); to != nil {
			c.compare(to.entry.Key, to.entry.Revision)
			next.Owner, next.Incarnation, next.Phase = to.value().Name, to.value().Incarnation, Owned
		}
		c.compare(own.Key, own.Revision)
		c.compare(key, o.Revision)
		if m := e.view.move(id); m != nil {
			next.Reason = m.value.Reason
			c.remove(m.Key, m.Revision)
		}
		c.put(key, encode(next, o.Value))
	}
	return c.txn()
}

// successor returns the next owner of a group that this gateway has drained: the target of its move, or otherwise the
// gateway with the least I/O. It is this gateway itself if there is no other, or if the group was drained to be owned
// with another backend, of which other gateways may not know yet.
func (e *Engine) successor(cs []*candidate, id ID, h *held) *candidate {
	g, m := e.groups.find(id), e.view.move(id)
	if g == nil || m != nil && m.err == nil && m.value.To == "" {
		return nil
	}
	if m != nil {
		for _, c := range cs {
			if c.value().Name == m.value.To && c.takes(g) {
				return c
			}
		}
	}
	if c := named(cs, e.cfg.Name); c != nil && h.isOther(g) && c.takes(g) {
		return c
	}
	if c := best(cs, g, e.cfg.Name); c != nil || e.leaving > 0 {
		return c
	}
	return best(cs, g, "")
}

// giveUp deletes moves that could not be made, and moves to this gateway of groups that it already owns.
func (e *Engine) giveUp() *state.Txn {
	var c change
	for _, id := range e.held.ids() {
		m := e.view.move(id)
		if m != nil && m.err == nil && (e.held[id].refused || m.value.To == e.cfg.Name) && !c.full() {
			c.remove(m.Key, m.Revision)
		}
	}
	return c.txn()
}

// A change is a transaction under construction.
type change struct{ t state.Txn }

// full reports whether there is no room for another group. It leaves room for what one group needs.
func (c *change) full() bool { return len(c.t.If)+len(c.t.Then) > state.MaxOps-8 }

func (c *change) compare(key string, r state.Revision) {
	if !slices.ContainsFunc(c.t.If, func(o state.Compare) bool { return o.Key == key }) {
		c.t.If = append(c.t.If, state.Compare{Key: key, Revision: r})
	}
}

func (c *change) put(key string, value []byte) { c.t.Then = append(c.t.Then, put(key, value)) }

func (c *change) remove(key string, r state.Revision) {
	c.compare(key, r)
	c.t.Then = append(c.t.Then, state.Op{Key: key, Delete: true})
}

// txn returns the transaction, or nil if there is nothing to change.
func (c *change) txn() *state.Txn {
	if len(c.t.Then) == 0 {
		return nil
	}
	return &c.t
}
