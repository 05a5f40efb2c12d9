package target

import (
	"maps"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Connection is a queue of a controller, with its queue pair.
type Connection struct {
	Device     *Device
	QPN        rdmatransport.QPN
	Host       nvmeof.NQN
	Subsystem  nvmeof.NQN
	Controller capsule.ControllerID
	Queue      capsule.QID
}

// Connections lists the queues of all controllers of t, admin queues included.
func Connections(t *Target) (all []Connection) {
	t.mu.Lock()
	subsystems := append(slices.Collect(maps.Values(t.subsystems)), t.discSub)
	t.mu.Unlock()
	for _, s := range subsystems {
		s.mu.Lock()
		for _, c := range s.controllers {
			all = appendConnections(all, c)
		}
		s.mu.Unlock()
	}
	return all
}

func appendConnections(all []Connection, c *Controller) []Connection {
	add := func(q *queue) {
		all = append(all, Connection{q.worker.device, q.qpn, c.hostNQN, c.subsystem.nqn, c.id, q.id})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	add(c.admin)
	for _, q := range c.queues {
		add(q)
	}
	return all
}
