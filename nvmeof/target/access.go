package target

import (
	"fmt"
	"maps"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// AllowHost allows the host with that NQN, with all rights. It does not change the rights of a host that is
// allowed already.
func (s *Subsystem) AllowHost(nqn nvmeof.NQN) {
	if s.hosts.Named(nqn) == nil {
		s.changeHosts(nqn, func() { s.hosts.Set(HostConfig{NQN: nqn}.entry()) })
	}
}

// SetHost allows a host with the given rights, or changes the rights of an allowed host. The host is notified of
// changed namespaces by an event. Commands that begin after SetHost has returned are subject to the new rights.
func (s *Subsystem) SetHost(c HostConfig) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("%s: %w", s.nqn, err)
	}
	s.changeHosts(c.NQN, func() { s.hosts.Set(c.entry()) })
	return nil
}

// SetAccess changes an allowed host's right to one namespace: AccessNone detaches the namespace from the host, the
// other rights attach it.
func (s *Subsystem) SetAccess(nqn nvmeof.NQN, id capsule.NSID, a Access) error {
	s.change.LockAt(0) // two calls at a time would lose one change
	defer s.change.Unlock()
	e := s.hosts.Named(nqn)
	if e == nil {
		return fmt.Errorf("%s: host %s is not allowed: allow it with Subsystem.SetHost first", s.nqn, nqn)
	}
	c := e.Config
	c.Namespaces = maps.Clone(c.Namespaces)
	if c.Namespaces == nil {
		c.Namespaces = make(map[capsule.NSID]Access)
	}
	c.Namespaces[id] = a
	return s.SetHost(c)
}

// RemoveHost removes a host's entry and ends its connections to the subsystem, unless every host is allowed.
func (s *Subsystem) RemoveHost(nqn nvmeof.NQN) {
	removed := false
	n := s.changeHosts(nqn, func() { removed = s.hosts.Remove(nqn) })
	if removed {
		s.target.log.Info("host removed", zap.String("host", string(nqn)), zap.String("subsystem", string(s.nqn)),
			zap.Int("controllers_disconnected", n), zap.String("remedy", allowRemedy(nqn, s.nqn)))
	}
}

// AllowAnyHost sets whether every host is allowed, or only those with an entry. The latter ends the connections of
// other hosts.
func (s *Subsystem) AllowAnyHost(on bool) {
	n := s.changeHosts("", func() { s.hosts.AllowAny(on) })
	if n > 0 {
		s.target.log.Info("only hosts that are listed by name are allowed now",
			zap.String("subsystem", string(s.nqn)), zap.Int("controllers_disconnected", n))
	}
}

// Hosts lists the hosts with an entry, in the order of their names.
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

// word returns a name quoted as a word of a command line, which an administrator may copy to a shell.
func word(n nvmeof.NQN) string { return shell.Quote(nvmeof.Visible(nvmeof.Concealed(string(n)))) }

// allowRemedy returns the remedy for a host that is not allowed.
func allowRemedy(host, subsystem nvmeof.NQN) string {
	return fmt.Sprintf("nvmeof host add %s -n %s; for a target without --config: --allow-host %[1]s", word(host), word(subsystem))
}

// changeHosts makes a change that concerns one host, or all if nqn is empty, and applies it to existing
// controllers. It returns how many of them it ended.
func (s *Subsystem) changeHosts(nqn nvmeof.NQN, change func()) (dismissed int) {
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

// settle checks the subsystem's controllers again after a [Target.Change].
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
