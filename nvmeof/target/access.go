package target

import (
	"fmt"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"maps"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
)

// AllowHost lets the host with that NQN connect, with all rights; one that is
// allowed already keeps what it has.
func (s *Subsystem) AllowHost(nqn string) {
	if s.hosts.Named(nqn) == nil {
		s.changeHosts(nqn, func() { s.hosts.Set(HostConfig{NQN: nqn}.entry()) })
	}
}

// SetHost lets a host connect with the rights given, or changes those that it
// has: it is told of namespaces that change for it by an event, and commands
// that begin from now on find the new rights.
func (s *Subsystem) SetHost(c HostConfig) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("%s: %w", s.nqn, err)
	}
	s.changeHosts(c.NQN, func() { s.hosts.Set(c.entry()) })
	return nil
}

// SetAccess changes an allowed host's right to one namespace: AccessNone
// detaches it from the host, the others attach it.
func (s *Subsystem) SetAccess(nqn string, id capsule.NSID, a Access) error {
	s.change.Lock() // two of these at a time would lose one
	defer s.change.Unlock()
	e := s.hosts.Named(nqn)
	if e == nil {
		return fmt.Errorf("%s: host %s is not allowed: Subsystem.SetHost allows it", s.nqn, nqn)
	}
	c := e.Config
	c.Namespaces = maps.Clone(c.Namespaces)
	if c.Namespaces == nil {
		c.Namespaces = make(map[capsule.NSID]Access)
	}
	c.Namespaces[id] = a
	return s.SetHost(c)
}

// RemoveHost takes the permission back and ends the host's connections to the
// subsystem, unless every host is allowed.
func (s *Subsystem) RemoveHost(nqn string) {
	removed := false
	n := s.changeHosts(nqn, func() { removed = s.hosts.Remove(nqn) })
	if removed {
		s.target.log.Info("host removed", zap.String("host", nqn), zap.String("subsystem", s.nqn),
			zap.Int("controllers_disconnected", n), zap.String("remedy", allowRemedy(nqn, s.nqn)))
	}
}

// AllowAnyHost lets every host connect, or only those allowed by name: the
// others' connections end.
func (s *Subsystem) AllowAnyHost(on bool) {
	n := s.changeHosts("", func() { s.hosts.AllowAny(on) })
	if n > 0 {
		s.target.log.Info("hosts are no longer allowed unless by name",
			zap.String("subsystem", s.nqn), zap.Int("controllers_disconnected", n))
	}
}

// Hosts lists the hosts that are allowed by name, in the order of their names.
func (s *Subsystem) Hosts() []HostConfig {
	all := s.hosts.All()
	out := make([]HostConfig, 0, len(all))
	for _, h := range all {
		out = append(out, h.Config.clone())
	}
	return out
}

// AnyHost reports whether every host is allowed.
func (s *Subsystem) AnyHost() bool { return s.hosts.Any() }

// allowRemedy is what lets a host in.
func allowRemedy(host, subsystem string) string {
	return "nvmeof host add " + host + " -n " + subsystem + "; of a target without --config: --allow-host " + host
}

// changeHosts makes a change that concerns one host, or all if nqn is empty, and
// enforces it on controllers that exist. It returns how many had to go.
func (s *Subsystem) changeHosts(nqn string, change func()) (dismissed int) {
	s.target.reshape([]*Subsystem{s}, change)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if nqn != "" && c.hostNQN != nqn {
			continue
		}
		switch e := s.hosts.Find(c.hostNQN); {
		case e != nil:
			c.grant(e.Rights)
		case s.target.unsettled.now.Load() > 0:
			c.withhold() // a later step may allow it
		default:
			dismissed++
			c.dismiss("host is no longer allowed")
		}
	}
	return dismissed
}

// settle judges the subsystem's controllers by what a change has come to.
func (s *Subsystem) settle() {
	if s.discovery {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		e := s.hosts.Find(c.hostNQN)
		switch {
		case e == nil:
			c.log.Info("controller disconnected: its host is no longer allowed", zap.String("remedy", allowRemedy(c.hostNQN, s.nqn)))
			c.dismiss("host is no longer allowed")
		case !s.exposed(c.listener.port.id):
			c.hide()
		case c.view.Rights.Load() != e.Rights:
			c.grant(e.Rights)
		}
	}
}

// withhold keeps what is added from a host that may have to go: it has what it had.
func (c *Controller) withhold() {
	before := c.view.Rights.Load()
	named := map[capsule.NSID]Access{}
	for ns := range c.subsystem.table().Listed {
		named[ns.ID] = before.To(ns.ID)
	}
	c.view.Rights.Store(access.NewRights(AccessNone, named))
}

// hide ends an association through a listener that does not show the subsystem any more.
func (c *Controller) hide() {
	c.log.Info("controller disconnected: its subsystem is no longer exposed on the listener",
		zap.Stringer("address", c.listener.port.addr), zap.String("remedy", "Subsystem.SetPorts"))
	c.dismiss("subsystem is no longer exposed on the listener")
}

// grant changes the host's rights and tells it what changes.
func (c *Controller) grant(now *access.Rights) {
	before := c.view.Rights.Swap(now)
	c.protested.Store(false)
	var ids []capsule.NSID
	for ns := range c.subsystem.table().Listed {
		if before.To(ns.ID) != now.To(ns.ID) {
			ids = append(ids, ns.ID)
			c.subsystem.regrouped(ns.Shown())
		}
	}
	if len(ids) > 0 {
		c.do(func() {
			for _, id := range ids {
				c.changed.Add(id)
			}
			c.raise(capsule.EventNamespaceAttribute)
		})
	}
}

// dismiss ends the association by the administrator's will, of which there is a
// line in the log already.
func (c *Controller) dismiss(why string) {
	c.do(func() {
		c.dismissed = true
		c.end(why)
	})
}

const mayWrite = "Subsystem.SetAccess or SetHost with AccessWrite"

// refusedWrite says once why a host that tries to write may not.
func (c *Controller) refusedWrite(ns *storage.Namespace) {
	if c.protested.Load() || c.protested.Swap(true) {
		return
	}
	reason, remedy := "host may only read the namespace", mayWrite
	switch {
	case ns.Volume.Info.ReadOnly:
		reason, remedy = "store is read-only", "open what is exported for writing"
	case ns.ReadOnly():
		reason, remedy = "namespace is read-only", "Namespace.SetReadOnly(false)"
	case ns.Protection() == capsule.WriteProtectedUntilOff:
		reason, remedy = "a host protected the namespace until the target ends", "start the target anew"
	case ns.Protection() != capsule.WriteProtectNone:
		reason, remedy = "a host protected the namespace", "nvme set-feature -f 0x84 -v 0, on a host that may write"
	}
	c.target.warn("write refused", zap.String("host", c.hostNQN), zap.String("subsystem", c.subsystem.nqn),
		zap.Uint32("nsid", uint32(ns.ID)), zap.String("reason", reason), zap.String("remedy", remedy))
}
