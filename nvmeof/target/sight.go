package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// identified notes that the host is told what a namespace is. If that has replaced
// another the host's commands are carried out only when it has surely understood.
func (c *Controller) identified(ns *storage.Namespace, k state.SightKind) {
	c.view.Asks.Add(1)
	switch {
	case c.view.Seen(ns):
		c.sights.Asked(k)
		return
	case !c.view.Replaced(ns):
		c.sights.Asked(k)
		if k == state.SightStructure {
			c.view.See(ns)
		}
		return
	}
	switch c.sights.Note(ns.ID, ns.Generation, k, c.now()) {
	case state.SightBegun:
		// Linux ends what it had at the NSID and takes no look at what is there now until
		// it is told again; and that it asks again is the proof that it has done so.
		c.namespaceChanged(ns.ID)
		c.armSettle()
	case state.SightSettles:
		c.armSettle()
	case state.SightKnown:
		c.sees(ns)
	case state.SightNothing:
	}
}

func (c *Controller) armSettle() {
	if at := c.sights.Next(); at != 0 {
		c.shard.SetTimer(&c.settle, time.Duration(max(at-c.now(), 0)))
	}
}

// settled is called when a host has had time enough.
func (c *Controller) settled() {
	for id, generation := range c.sights.Settled(c.now()) {
		if ns := c.view.Table.Load().Get(id); ns != nil && ns.Generation == generation {
			c.sees(ns)
		}
	}
	c.armSettle()
}

// sees lets the host's commands for a namespace in that has replaced another. Other
// controllers of the host hear of a change again: with several paths a host may have
// been unable to take the new one on one path before it had given the old one up on all.
func (c *Controller) sees(ns *storage.Namespace) {
	c.view.See(ns)
	c.log.Info("host has identified the namespace that replaced another", zap.Uint32("nsid", uint32(ns.ID)))
	s := c.subsystem
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.controllers {
		if o != c && o.hostNQN == c.hostNQN {
			o.do(func() { o.namespaceChanged(ns.ID) })
		}
	}
}

// presume notes that the host uses a namespace and asks about none since it connected.
func (c *Controller) presume(ns *storage.Namespace) {
	if !c.view.Presumed.Swap(true) {
		c.log.Warn("host uses a namespace that it has not identified since it connected; its commands are executed",
			zap.Uint32("nsid", uint32(ns.ID)))
	}
}
