package target

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// ControllerInfo is a controller as it was at one time.
type ControllerInfo struct {
	Subsystem string
	ID        capsule.ControllerID
	Discovery bool
	HostNQN   string
	HostID    capsule.HostID
	Peer      netip.Addr
	Port      PortID // of the listener
	// Authenticated: the host has proved who it is.
	Authenticated bool
	Queues        []QueueInfo // I/O queues, by identifier
}

// QueueInfo is an I/O queue.
type QueueInfo struct {
	ID      capsule.QID
	Entries int
	Shard   int
}

// Controllers lists who is connected, by subsystem and controller identifier.
func (t *Target) Controllers() []ControllerInfo {
	t.mu.Lock()
	subsystems := []*Subsystem{t.discSub}
	for _, s := range t.subsystems {
		subsystems = append(subsystems, s)
	}
	t.mu.Unlock()
	var out []ControllerInfo
	for _, s := range subsystems {
		out = s.appendInfo(out)
	}
	slices.SortFunc(out, func(a, b ControllerInfo) int {
		return cmp.Or(cmp.Compare(a.Subsystem, b.Subsystem), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (s *Subsystem) appendInfo(out []ControllerInfo) []ControllerInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		out = append(out, c.info())
	}
	return out
}

func (c *Controller) info() ControllerInfo {
	out := ControllerInfo{
		Subsystem: c.subsystem.nqn, ID: c.id, Discovery: c.discovery(),
		HostNQN: c.hostNQN, HostID: c.hostID, Peer: c.peer, Port: c.listener.port.id,
		Authenticated: c.authenticated.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, q := range c.queues {
		out.Queues = append(out.Queues, QueueInfo{ID: id, Entries: int(q.entries), Shard: q.worker.index})
	}
	slices.SortFunc(out.Queues, func(a, b QueueInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
