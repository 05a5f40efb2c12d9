package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// identified is called when the host reads the identity of a namespace. If that namespace has replaced another
// one, the host's commands are executed only after the host has certainly processed the response.
func (c *Controller) identified(ns *storage.Namespace, k state.IdentifyKind) {
	c.view.Asks.Add(1)
	switch {
	case c.view.Identified(ns):
		c.unidentified.Identified(k)
		return
	case !c.view.Replaced(ns):
		c.unidentified.Identified(k)
		if k == state.IdentifyStructure {
			c.view.SetIdentified(ns)
		}
		return
	}
	switch c.unidentified.Note(ns.ID, ns.Generation, k, c.now()) {
	case state.IdentifyBegun:
		// Linux removes its old namespace at the NSID, and identifies the new one only after the next event. That
		// second Identify proves that it has processed the first.
		c.namespaceChanged(ns.ID)
		c.armSettle()
	case state.IdentifySettles:
		c.armSettle()
	case state.IdentifyKnown:
		c.confirm(ns)
	case state.IdentifyNothing:
	}
}

func (c *Controller) armSettle() {
	if at := c.unidentified.Next(); at != 0 {
		c.shard.SetTimer(&c.settle, time.Duration(max(at-c.now(), 0)))
	}
}

// settled is called when IdentifySettle has passed.
func (c *Controller) settled() {
	for id, generation := range c.unidentified.Settled(c.now()) {
		if ns := c.view.Table.Load().At(id); ns != nil && ns.Generation == generation {
			c.confirm(ns)
		}
	}
	c.armSettle()
}

// confirm allows the host's commands for a namespace that has replaced another. The other controllers of the host
// raise the event once more: with several paths, a host may have been unable to add the new namespace on one path
// before it had removed the old one on all.
func (c *Controller) confirm(ns *storage.Namespace) {
	c.view.SetIdentified(ns)
	c.notices.SetMask(ns.ID, 0) // the host's mask was for the old namespace
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

// presume notes that the host uses a namespace without having identified any since it connected.
func (c *Controller) presume(ns *storage.Namespace) {
	if !c.view.Presumed.Swap(true) {
		c.target.log.Troubles.Write(c.log.Warn, "host uses a namespace that it has not identified since it connected; its commands are executed",
			[]zap.Field{zap.Uint32("nsid", uint32(ns.ID))})
	}
}
