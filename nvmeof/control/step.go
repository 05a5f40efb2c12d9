package control

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

func itoa(n int) string { return strconv.Itoa(n) }

// step carries one change out, whole or not at all. Called with mu held.
func (m *Manager) step(c config.Change, o Options) error {
	switch c.Kind {
	case config.KindListener:
		if c.Op == config.Add {
			return m.listen(c.New.(*config.Listener), o)
		}
		m.unlisten(c.Old.(*config.Listener))
		return nil
	case config.KindANAGroup:
		return m.setANA(c.Listener, c.New.(*config.ANAGroup))
	case config.KindReferral:
		if c.Op == config.Add {
			return m.target.AddReferral(referral(c.New.(*config.Referral)))
		}
		return m.target.RemoveReferral(referral(c.Old.(*config.Referral)))
	case config.KindSubsystem:
		switch c.Op {
		case config.Add:
			return m.addSubsystem(c.New.(*config.Subsystem), o)
		case config.Alter:
			s, err := m.subsystem(nvmeof.NQN(c.Name))
			if err != nil {
				return err
			}
			now := c.New.(*config.Subsystem)
			if now.State != c.Old.(*config.Subsystem).State {
				m.stores.stateIsWanted(now.State, o)
			}
			return m.stores.withRemoval(s.Configure(subsystemConfig(now, &m.stores)))
		}
		m.removeSubsystem(nvmeof.NQN(c.Name))
		return nil
	}
	s, err := m.subsystem(c.Subsystem)
	if err != nil {
		return err
	}
	switch c.Kind {
	case config.KindVisibility:
		m.setVisibility(s, c.New.(*config.Subsystem))
		return nil
	case config.KindHost:
		if c.Op == config.Remove {
			forgetKey(m, hostKey{c.Subsystem, nvmeof.NQN(c.Name)})
			s.RemoveHost(nvmeof.NQN(c.Name))
			return nil
		}
		return m.setHost(s, c.New.(*config.Host), o)
	case config.KindNamespace:
		return m.namespaceStep(s, c, o)
	case config.KindSize:
		return m.resize(c)
	}
	return fmt.Errorf("no way to %s a %s", c.Op, c.Kind)
}

var anaStates = map[config.ANAState]capsule.ANAState{
	"optimized": capsule.ANAOptimized, "non-optimized": capsule.ANANonOptimized, "inaccessible": capsule.ANAInaccessible,
	"persistent-loss": capsule.ANAPersistentLoss, "change": capsule.ANAChange,
}

func (m *Manager) setANA(listener int, g *config.ANAGroup) error {
	if m.listeners[listener] == nil && m.wildcards[listener] == nil {
		return &NotFoundError{Kind: "listener", Name: itoa(listener)}
	}
	var errs []error
	for _, l := range m.listeners {
		if l.of == listener && l.listener != nil { // else it begins with what the document says then
			errs = append(errs, l.listener.SetANAState(capsule.ANAGroup(g.Group), anaStates[g.State]))
		}
	}
	return errors.Join(errs...)
}

// anaTable is how a listener begins.
func anaTable(l *config.Listener) map[capsule.ANAGroup]capsule.ANAState {
	t := map[capsule.ANAGroup]capsule.ANAState{}
	for _, g := range l.ANAGroups {
		t[capsule.ANAGroup(g.Group)] = anaStates[g.State]
	}
	return t
}

func referral(x *config.Referral) target.Referral {
	r := target.Referral{Addr: x.Address.AddrPort, NQN: x.NQN, Port: target.PortID(x.PortID), Secure: x.Secure}
	if x.Transport == "tcp" {
		r.Transport = capsule.TransportTCP
	}
	return r
}

var versions = map[config.NVMeVersion]capsule.Version{
	"1.2.1": capsule.MakeVersion(1, 2, 1), "1.3": capsule.MakeVersion(1, 3, 0), "1.4": capsule.MakeVersion(1, 4, 0), "2.0": capsule.MakeVersion(2, 0, 0),
}

// addSubsystem creates a subsystem that nobody may use yet.
func (m *Manager) addSubsystem(s *config.Subsystem, o Options) error {
	c := subsystemConfig(s, &m.stores)
	m.stores.stateIsWanted(s.State, o)
	c.AwaitState = o.Wait // its namespaces meet it again
	t, err := m.target.AddSubsystem(c)
	if err != nil {
		return unlessLeaving(m, subsystemName(s.NQN), m.stores.withRemoval(err))
	}
	m.setVisibility(t, s)
	return nil
}

// subsystemName is how a subsystem that leaves is called.
func subsystemName(nqn nvmeof.NQN) string { return "subsystem " + string(nqn) }

func subsystemConfig(s *config.Subsystem, files *stores) target.SubsystemConfig {
	c := target.SubsystemConfig{
		NQN: s.NQN, Serial: s.Serial, Model: s.Model, RefuseDuplicates: s.RefuseDuplicates,
		Version:       versions[s.NVMeVersion],
		MinController: capsule.ControllerID(s.MinControllerID), MaxController: capsule.ControllerID(s.MaxControllerID),
	}
	if s.State != "" {
		c.State = files.stateFile(s.State)
	}
	return c
}

// removeSubsystem ends what hosts have there. What they have in flight is waited for,
// whatever namespace it is of. It is gone then, also where its state is not saved.
func (m *Manager) removeSubsystem(nqn nvmeof.NQN) {
	var names []string
	for _, s := range m.doc.Subsystems {
		if s.NQN == nqn {
			for _, n := range s.Namespaces {
				names = append(names, exportName(n))
			}
		}
	}
	delete(m.exposed, nqn)
	l := &leaving{what: subsystemName(nqn), unfinished: exports(names...)}
	if err := m.remove(l, func() error { return m.target.RemoveSubsystem(nqn) }, func() {}); err != nil {
		m.log.Warn("subsystem is removed, not without an error", zap.String("subsystem", string(nqn)), zap.Error(err))
	}
}

func (m *Manager) setVisibility(s *target.Subsystem, c *config.Subsystem) {
	m.exposed[c.NQN] = c.Listeners
	s.SetPorts(m.portsOf(c.Listeners))
	s.AllowAnyHost(c.AllowAnyHost)
}

func (m *Manager) namespaceStep(s *target.Subsystem, c config.Change, o Options) error {
	at := namespaceKey{c.Subsystem, 0}
	switch c.Op {
	case config.Add:
		n := c.New.(*config.Namespace)
		at.nsid = n.NSID
		if isForeign(m, n) {
			return leaveForeign(m, s, at, n)
		}
		delete(m.probed, at)
		err := m.addNamespace(s, c.Subsystem, n)
		if err != nil && o.Wait {
			m.await(s, at, n, err)
			return nil
		}
		return err
	case config.Remove:
		n := c.Old.(*config.Namespace)
		at.nsid = n.NSID
		id := capsule.NSID(n.NSID)
		returns := m.returns(&o, at, n)
		if forgetForeign(m, at) {
			if returns {
				return nil
			}
			delete(m.probed, at)
			return s.RemoveNamespace(id)
		}
		if w := m.waiting[at]; w != nil {
			m.forget(at)
			if w.announced && !returns {
				return s.RemoveNamespace(id)
			}
			return nil // to hosts it is away as before, or was never there
		}
		end := s.RemoveNamespace
		if returns {
			end = s.SuspendNamespace
		}
		return takeOut(m, at, n, false, end)
	}
	now := c.New.(*config.Namespace)
	at.nsid = now.NSID
	return alterNamespace(m, s, at, now)
}

func alterNamespace(m *Manager, s *target.Subsystem, at namespaceKey, now *config.Namespace) error {
	if isForeign(m, now) || m.foreign[at] != nil {
		return alterForeign(m, s, at, now)
	}
	if w := m.waiting[at]; w != nil {
		w.namespace = now
		return nil
	}
	n, err := namespace(s, now.NSID)
	if err != nil {
		return err
	}
	if m.cfg.Keeper != nil && n.Group() != groupOf(now) { // whoever owns that group keeps its reservations: they are read as its owner
		return reopen(m, s, at, now)
	}
	n.SetReadOnly(now.ReadOnly)
	n.SetRefuseReservations(now.RefuseReservations)
	return n.SetGroup(groupOf(now))
}

// reopen takes a namespace out and back, with its reservations read again. To hosts it is away in between.
func reopen(m *Manager, s *target.Subsystem, at namespaceKey, n *config.Namespace) error {
	if err := takeOut(m, at, n, true, s.SuspendNamespace); err != nil {
		return err
	}
	if err := m.addNamespace(s, at.nqn, n); err != nil {
		m.await(s, at, n, err)
	}
	return nil
}

// ReloadNamespace removes a served namespace and adds it again, so that its reservations are read
// again.
func ReloadNamespace(m *Manager, nqn nvmeof.NQN, nsid int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	s, err := m.subsystem(nqn)
	if err != nil {
		return err
	}
	m.beginChange(Options{Wait: true})
	at := namespaceKey{nqn, nsid}
	for _, d := range m.doc.Subsystems {
		for _, n := range d.Namespaces {
			if d.NQN == nqn && n.NSID == nsid && m.waiting[at] == nil && m.foreign[at] == nil {
				return reopen(m, s, at, n)
			}
		}
	}
	return nil // it is opened, and they are read, when its time comes
}

func (m *Manager) addNamespace(s *target.Subsystem, nqn nvmeof.NQN, n *config.Namespace) error {
	if err := outdated(m, nqn, n); err != nil {
		return err
	}
	if err := cmp.Or(m.stores.reservationsGone(n), m.astray.heldFor(&m.stores.reacher, nqn, n)); err != nil {
		return err
	}
	store, err := m.stores.acquire(nqn, n)
	if err != nil {
		return err
	}
	var mark []byte
	if s, ok := store.(backend.Marked); ok {
		mark = s.Mark()
	}
	m.stores.warnRenamed(nqn, n, mark)
	if name, other := m.cfg.Names[n.Path()]; other && m.cfg.Group == nil && n.UUID == (config.UUID{}) {
		n.UUID = config.DefaultUUID(nqn, n.NSID, name, mark)
	}
	c := m.namespaceConfig(nqn, n)
	c.Store, c.UUID = store, uuid.UUID(cmp.Or(n.UUID, config.DefaultUUID(nqn, n.NSID, exportName(n), mark)))
	keep(m, nqn, &c)
	if n.Reservations != "" {
		c.Reservations = m.stores.reservationFile(n.Reservations)
	}
	if _, err = s.AddNamespace(c); err != nil {
		m.stores.release(nqn, n)
		return m.stores.withRemoval(err)
	}
	m.stores.reserves(n)
	return nil
}

// namespaceConfig is a namespace as the target takes it, without what it stores.
func (m *Manager) namespaceConfig(nqn nvmeof.NQN, n *config.Namespace) target.NamespaceConfig {
	p := m.probed[namespaceKey{nqn, n.NSID}]
	id := uuidOf(m, nqn, n, p)
	c := target.NamespaceConfig{
		NSID: capsule.NSID(n.NSID), ReadOnly: n.ReadOnly, Group: capsule.ANAGroup(n.ANAGroup),
		UUID: uuid.UUID(id), NGUID: n.NGUID, EUI64: n.EUI64, Name: exportName(n), RefuseReservations: n.RefuseReservations,
	}
	if p != nil {
		c.Known = &p.Info
	}
	return c
}

// keep has the reservations of a namespace, whose UUID is known, kept for all targets that serve it.
func keep(m *Manager, nqn nvmeof.NQN, c *target.NamespaceConfig) {
	if m.cfg.Keeper != nil {
		c.Keeper = m.cfg.Keeper(nqn, c)
	}
}

// awayConfig is a namespace of which the target does not have what it stores. Of an image that was not
// found yet the UUID is not known, by which its reservations are kept.
func awayConfig(m *Manager, nqn nvmeof.NQN, n *config.Namespace) target.NamespaceConfig {
	c := m.namespaceConfig(nqn, n)
	if n.RBD == nil || n.UUID != (config.UUID{}) || m.probed[namespaceKey{nqn, n.NSID}] != nil {
		keep(m, nqn, &c)
	}
	return c
}

// sameToHosts reports whether hosts take one for the other: by all their identifiers. Memory
// that is another has others, unless the document gives them.
func (m *Manager) sameToHosts(nqn nvmeof.NQN, a, b *config.Namespace) bool {
	if b.Memory != nil && b.UUID == (config.UUID{}) && !a.SameStore(b) {
		return false
	}
	x, y := m.namespaceConfig(nqn, a), m.namespaceConfig(nqn, b)
	return x.UUID == y.UUID && x.NGUID == y.NGUID && x.EUI64 == y.EUI64
}

// returns reports whether a namespace that a step takes out is brought back by a later one,
// for hosts the same.
func (m *Manager) returns(o *Options, at namespaceKey, n *config.Namespace) bool {
	back := o.coming[at]
	return back != nil && m.sameToHosts(at.nqn, n, back)
}

// exportName is what a namespace exports, as logs have it.
func exportName(n *config.Namespace) string {
	return cmp.Or(string(n.Path()), "memory")
}

func (m *Manager) resize(c config.Change) error {
	now := c.New.(*config.Namespace)
	if w := m.waiting[namespaceKey{c.Subsystem, now.NSID}]; w != nil {
		w.namespace = now // it gets its size when it comes
		return nil
	}
	if at := (namespaceKey{c.Subsystem, now.NSID}); m.foreign[at] != nil { // whoever has it makes it longer
		s, err := m.subsystem(c.Subsystem)
		if err != nil {
			return err
		}
		return leaveForeign(m, s, at, now)
	}
	if now.File == nil {
		return nil
	}
	h := m.stores.held[keyOf(c.Subsystem, now)]
	err := m.stores.ask(now.Path(), func() error {
		if err := m.stores.grow(h, now); err != nil {
			return err
		}
		m.stores.note(now, h)
		return nil
	})
	if err != nil {
		return err
	}
	l := &leaving{what: "the look at the sizes of stores", unfinished: exports()}
	return m.remove(l, func() error { m.target.Revalidate(); return nil }, func() {})
}
