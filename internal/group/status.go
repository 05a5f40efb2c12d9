package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Status is the group as a gateway sees it.
type Status struct {
	Gateways []GatewayStatus // by name
	Groups   []GroupStatus   // those configured
	Fences   []FenceRecord
	// Listing is the revision at which the gateways that are registered were others for the last time.
	Listing state.Revision
	Read    time.Duration // when the store was last read, by the engine's clock
}

// A GatewayStatus is about one gateway.
type GatewayStatus struct {
	Member  Member
	Beat    Beat
	Alive   bool // it is registered, and its heartbeats are seen
	Drained bool // it is to own nothing
}

// A GroupStatus is about one ANA group.
type GroupStatus struct {
	Group  Group
	Owner  Owner
	Moving bool
	To     string // if it is moving
	Served bool   // by this gateway
}

// Status returns what was last read.
func (e *Engine) Status() Status {
	s := Status{Read: e.store.all.at, Listing: e.view.listing.revision(ListingKey)}
	for i := range e.view.members {
		if m := &e.view.members[i]; m.err == nil {
			s.Gateways = append(s.Gateways, GatewayStatus{m.value, e.view.beat(&m.value), e.alive(m), e.view.drained(m.value.Name)})
		}
	}
	for _, g := range e.groups {
		gs := GroupStatus{Group: g, Served: e.held[g.ID] != nil && e.held[g.ID].phase == serving}
		if o := e.view.owners.find(ownerKey(g.ID)); o != nil {
			gs.Owner = o.value
		}
		if m := e.view.moves.find(moveKey(g.ID)); m != nil {
			gs.Moving, gs.To = true, m.value.To
		}
		s.Groups = append(s.Groups, gs)
	}
	for i := range e.view.fences {
		s.Fences = append(s.Fences, e.view.fences[i].value)
	}
	return s
}

// Guard returns what a transaction has to compare so that it is carried out only while this
// gateway owns a group, in an epoch; false if it does not as far as it knows.
func (e *Engine) Guard(id ID) (epoch uint64, c []state.Compare, ok bool) {
	h, o := e.held[id], e.view.owners.find(ownerKey(id))
	if h == nil || h.phase == drained || o == nil || o.value.Incarnation != e.inc || o.value.Epoch != h.epoch {
		return 0, nil, false
	}
	return h.epoch, []state.Compare{{Key: o.Key, Revision: o.Revision}}, true
}
