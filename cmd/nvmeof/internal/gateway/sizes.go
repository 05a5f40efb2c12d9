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

// sizesAgain is the time after which a group whose size still differs is probed again. It doubles each time, up to
// sizesSeldom: the size may differ for long, as when a namespace waits at the owner alone.
const (
	sizesAgain  = time.Minute
	sizesSeldom = time.Hour
)

// sizes are the total sizes of the namespaces of each ANA group, in bytes. The owner of a group publishes its size, since
// only the owner notices that an image or a file was made larger. The other gateways probe the group's stores again if they
// have reported another size to hosts.
type sizes struct {
	tried map[group.ID]differing // used by the goroutine that measures

	mu     sync.Mutex              // guards what follows
	served map[group.ID]int64      // of groups that are served here; the map is not modified
	heard  map[group.ID]int64      // of groups that others serve, by their heartbeats; the map is not modified
	look   chan []capsule.ANAGroup // groups to probe; constant
}

// A differing is a size that differed when the group was probed last.
type differing struct {
	heard, known int64
	at           time.Time
	again        time.Duration // not before this has passed
}

// hear sets the sizes that other gateways publish.
func (s *sizes) hear(all map[group.ID]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = all
}

// heardOf returns the published sizes of the groups that are not served here.
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

// published returns the sizes of the groups that are served here. The map is not modified any more.
func (s *sizes) published() map[group.ID]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// measured handles the target's measures: it publishes the sizes of groups that are served here, and has other groups
// probed whose owners publish another size.
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
		default: // others are being probed; these are found again
			for _, id := range all {
				delete(s.tried, group.ID(id))
			}
		}
	}
}

// differing returns the groups whose owners publish another size, and that were not probed recently for that.
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

// follow probes the groups in s.look again, until ctx ends.
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
