package target

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// ControllerInfo is a snapshot of a controller.
type ControllerInfo struct {
	Subsystem nvmeof.NQN
	ID        capsule.ControllerID
	Discovery bool
	HostNQN   nvmeof.NQN
	HostID    capsule.HostID
	Peer      netip.Addr
	Port      PortID // of the listener
	Connected time.Time
	// Authenticated reports whether the host has authenticated.
	Authenticated bool
	Queues        []QueueInfo // I/O queues, by identifier
}

// Undelivered counts the connections that ended because their hosts answered but accepted nothing that was sent.
func (t *Target) Undelivered() uint64 { return t.undelivered.Load() }

// Slowed is the sum of QueueInfo.Slowed over all queues, including those that have ended.
func (t *Target) Slowed() uint64 { return t.slowed.Load() }

// QueueInfo describes an I/O queue.
type QueueInfo struct {
	ID      capsule.QID
	Entries int
	Shard   int

	// Counters since the queue was connected. Commands minus Answers are in flight; bytes are those of commands
	// that succeeded.
	Commands, Answers       uint64
	ReadBytes, WrittenBytes uint64
	// Copied is how many Reads from a store's own memory were copied to a buffer, because other commands waited to
	// write there and the host did not acknowledge the data.
	Copied uint64
	// Slowed is how often others waited for receive room that the queue held for data which its host did not
	// deliver. Each time the queue gets less room for some seconds.
	Slowed uint64
}

// Controllers lists the connected controllers, by subsystem and controller identifier. It wakes the shards.
func (t *Target) Controllers() []ControllerInfo {
	t.mu.Lock()
	subsystems := []*Subsystem{t.discSub}
	for _, s := range t.subsystems {
		subsystems = append(subsystems, s)
	}
	t.mu.Unlock()
	var out []ControllerInfo
	var queues []counted
	for _, s := range subsystems {
		out, queues = s.appendInfo(out, queues)
	}
	readCounts(queues)
	slices.SortFunc(out, func(a, b ControllerInfo) int {
		return cmp.Or(cmp.Compare(a.Subsystem, b.Subsystem), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (s *Subsystem) appendInfo(out []ControllerInfo, queues []counted) ([]ControllerInfo, []counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		info, own := c.info()
		out, queues = append(out, info), append(queues, own...)
	}
	return out, queues
}

// info returns the controller without the counters of its queues, and the queues with the places for their
// counters.
func (c *Controller) info() (ControllerInfo, []counted) {
	out := ControllerInfo{
		Subsystem: c.subsystem.nqn, ID: c.id, Discovery: c.discovery(),
		HostNQN: c.hostNQN, HostID: c.hostID, Peer: c.peer, Port: c.listener.port.id, Connected: c.connected,
		Authenticated: c.authenticated.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var queues []counted
	for _, id := range slices.Sorted(maps.Keys(c.queues)) {
		q := c.queues[id]
		out.Queues = append(out.Queues, QueueInfo{ID: id, Entries: int(q.entries), Shard: int(q.worker.lanes.Index)})
		queues = append(queues, counted{queue: q})
	}
	for i := range queues {
		queues[i].to = &out.Queues[i]
	}
	return out, queues
}
