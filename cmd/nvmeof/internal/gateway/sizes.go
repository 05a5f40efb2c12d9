package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// sizesAgain is after what time a size that still differs is looked into again, and then after twice that and so on up to
// sizesSeldom: the owner may wait for a namespace that is there for others.
const (
	sizesAgain  = time.Minute
	sizesSeldom = time.Hour
)

// sizes are how many bytes the namespaces of each ANA group have together. Who serves a group publishes it, and the other
// gateways look again at what its namespaces export where they have told hosts another sum: only who serves an image or a
// file notices that it was made larger, and when.
type sizes struct {
	tried map[group.ID]differing // of the goroutine that measures

	mu     sync.Mutex              // guards what follows
	served map[group.ID]int64      // of groups that are served here; constant
	heard  map[group.ID]int64      // of groups that others serve, by their heartbeats; constant
	look   chan []capsule.ANAGroup // those to look at; constant
}

// A differing is a sum that differed when it was looked into.
type differing struct {
	heard, known int64
	at           time.Time
	again        time.Duration // not before that has passed
}

// hear takes what others publish.
func (s *sizes) hear(all map[group.ID]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = all
}

// heardOf are the sizes that the owners of groups publish which are not served here.
func heardOf(s *group.Status) map[group.ID]int64 {
	beats := make(map[group.Incarnation]*group.Beat, len(s.Gateways))
	for i := range s.Gateways {
		beats[s.Gateways[i].Member.Incarnation] = &s.Gateways[i].Beat
	}
	all := map[group.ID]int64{}
	for _, x := range s.Groups {
		if b := beats[x.Owner.Incarnation]; b != nil && x.Owner.Phase == group.Owned && !x.Served {
			if n, ok := b.Sizes[x.Group.ID]; ok {
				all[x.Group.ID] = n
			}
		}
	}
	return all
}

// published are the sizes of what is served here. They are not changed any more.
func (s *sizes) published() map[group.ID]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// measured takes what the target tells hosts, and has groups looked at whose owners tell them something else.
func (s *sizes) measured(at time.Time, m *target.Measures, serves func(capsule.ANAGroup) bool) {
	served, known := map[group.ID]int64{}, map[group.ID]int64{}
	for i := range m.Subsystems {
		for j := range m.Subsystems[i].Namespaces {
			n := &m.Subsystems[i].Namespaces[j]
			if serves(n.Group) {
				served[group.ID(n.Group)] += n.Size
			} else {
				known[group.ID(n.Group)] += n.Size
			}
		}
	}
	s.mu.Lock()
	s.served = served
	s.mu.Unlock()
	if all := s.differing(at, known); len(all) > 0 {
		select {
		case s.look <- all:
		default: // the last ones are being looked at, and these are found again
			for _, id := range all {
				delete(s.tried, group.ID(id))
			}
		}
	}
}

// differing are the groups whose owners tell hosts something else, and which were not looked at for that.
func (s *sizes) differing(at time.Time, known map[group.ID]int64) (all []capsule.ANAGroup) {
	s.mu.Lock()
	heard := s.heard
	s.mu.Unlock()
	next := map[group.ID]differing{}
	for id, n := range known {
		others, ok := heard[id]
		if !ok || others == n {
			continue
		}
		was, tried := s.tried[id]
		again := sizesAgain
		if tried && was.heard == others && was.known == n {
			if at.Sub(was.at) < was.again {
				next[id] = was
				continue
			}
			again = min(2*was.again, sizesSeldom)
		}
		next[id] = differing{others, n, at, again}
		all = append(all, capsule.ANAGroup(id))
	}
	s.tried = next
	return all
}

// follow looks at namespaces whose size has changed at other gateways, until ctx ends.
func (s *sizes) follow(ctx context.Context, m *control.Manager) {
	for {
		select {
		case <-ctx.Done():
			return
		case all := <-s.look:
			for _, id := range all {
				if ctx.Err() != nil { // each may take as long as a store that hangs
					return
				}
				control.RefreshForeign(m, id)
			}
		}
	}
}
