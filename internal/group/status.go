package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Status is the group as this gateway sees it.
type Status struct {
	Gateways []GatewayStatus // sorted by name
	Groups   []GroupStatus   // the configured groups
	Fences   []FenceRecord
	// Listing is the revision of the last change of the set of registered gateways.
	Listing state.Revision
	Read    time.Duration // when the store was last read, by the engine's clock
}

// A GatewayStatus is the status of one gateway.
type GatewayStatus struct {
	Member  Member
	Beat    Beat
	Alive   bool // registered, and its heartbeats are seen
	Drained bool // it must own nothing
	Unknown bool // it is registered, and whether it is alive is not known, since this gateway has no heartbeat executed either, or cannot read
}

// A GroupStatus is the status of one ANA group.
type GroupStatus struct {
	Group  Group
	Owner  Owner
	Moving bool
	To     string // the new owner, if it is moving
	Served bool   // served by this gateway
}

// Status returns what was last read.
func (e *Engine) Status() Status {
	s := Status{Read: e.store.all.at, Listing: e.view.listing.revision(ListingKey)}
	for i := range e.view.members {
		if m := &e.view.members[i]; m.err == nil {
			alive := e.alive(m)
			s.Gateways = append(s.Gateways, GatewayStatus{m.value, e.view.beat(&m.value), alive, e.view.drained(m.value.Name), !alive && !m.value.Ended && !e.judges()})
		}
	}
	for _, g := range e.groups {
		gs := GroupStatus{Group: g, Served: e.held[g.ID] != nil && e.held[g.ID].phase == serving}
		if o := e.view.owner(g.ID); o != nil {
			gs.Owner = o.value
		}
		if m := e.view.move(g.ID); m != nil {
			gs.Moving, gs.To = true, m.value.To
		}
		s.Groups = append(s.Groups, gs)
	}
	for i := range e.view.fences {
		s.Fences = append(s.Fences, e.view.fences[i].value)
	}
	return s
}

// A Hold is what a gateway knows of a group that it owns.
type Hold struct {
	Epoch   uint64
	Session Incarnation     // empty: not known yet
	Guard   []state.Compare // a transaction with these comparisons is executed only while it owns the group
}

// Holds returns a Hold for each group that this gateway owns as far as it knows.
func (e *Engine) Holds() map[ID]Hold {
	all, own := map[ID]Hold{}, e.own()
	for id, h := range e.held {
		o := e.view.owner(id)
		if own == nil || h.phase == drained || o == nil || o.value.Incarnation != e.inc || o.value.Epoch != h.epoch {
			continue
		}
		all[id] = Hold{h.epoch, own.value.Session, []state.Compare{{Key: o.Key, Revision: o.Revision}}}
	}
	return all
}
