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

// step makes one change completely, or not at all. The caller holds mu.
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
	return fmt.Errorf("cannot %s a %s", c.Op, c.Kind)
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
		if l.of == listener && l.listener != nil { // others take the state from the document when they are added
			errs = append(errs, l.listener.SetANAState(capsule.ANAGroup(g.Group), anaStates[g.State]))
		}
	}
	return errors.Join(errs...)
}

// anaTable returns the ANA states of a new listener.
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

// addSubsystem adds a subsystem that no host may use yet.
func (m *Manager) addSubsystem(s *config.Subsystem, o Options) error {
	c := subsystemConfig(s, &m.stores)
	m.stores.stateIsWanted(s.State, o)
	c.AwaitState = o.Wait // its namespaces wait if it cannot be read
	t, err := m.target.AddSubsystem(c)
	if err != nil {
		return unlessLeaving(m, subsystemName(s.NQN), m.stores.withRemoval(err))
	}
	m.setVisibility(t, s)
	return nil
}

// subsystemName returns the name of a subsystem in messages.
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

// removeSubsystem disconnects the hosts of a subsystem, waits for the commands of all its namespaces, and removes
// it, even if its state cannot be saved.
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
		m.log.Warn("subsystem is removed, with an error", zap.String("subsystem", string(nqn)), zap.Error(err))
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
			return announceForeign(m, s, at, n)
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
			return nil // hosts see it as inaccessible, as before, or never saw it
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
	if m.cfg.Keeper != nil && n.Group() != groupOf(now) { // the owner of the new group keeps its reservations, which must be read from there
		return reopen(m, s, at, now)
	}
	n.SetReadOnly(now.ReadOnly)
	n.SetRefuseReservations(now.RefuseReservations)
	return n.SetGroup(groupOf(now))
}

// reopen removes a namespace and adds it again, so that its reservations are read again. Hosts see it as
// inaccessible in between.
func reopen(m *Manager, s *target.Subsystem, at namespaceKey, n *config.Namespace) error {
	if err := takeOut(m, at, n, true, s.SuspendNamespace); err != nil {
		return err
	}
	if err := m.addNamespace(s, at.nqn, n); err != nil {
		m.await(s, at, n, err)
	}
	return nil
}

// ReloadNamespace removes a served namespace and adds it again, so that its reservations are read again.
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
	return nil // it is not open; they are read when it is opened
}

func (m *Manager) addNamespace(s *target.Subsystem, nqn nvmeof.NQN, n *config.Namespace) error {
	if err := outdated(m, nqn, n); err != nil {
		return err
	}
	if err := cmp.Or(m.stores.reservationsGone(n), m.misplaced.reservedElsewhere(&m.stores.reacher, nqn, n)); err != nil {
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

// namespaceConfig returns the target's configuration of a namespace, without its store.
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

// keep sets what keeps the reservations of a namespace for all targets that serve it. The UUID must be set.
func keep(m *Manager, nqn nvmeof.NQN, c *target.NamespaceConfig) {
	if m.cfg.Keeper != nil {
		c.Keeper = m.cfg.Keeper(nqn, c)
	}
}

// awayConfig returns the configuration of a namespace whose store the target does not have open. If it is an image
// that has not been found yet, its UUID is unknown, and so are its reservations.
func awayConfig(m *Manager, nqn nvmeof.NQN, n *config.Namespace) target.NamespaceConfig {
	c := m.namespaceConfig(nqn, n)
	if n.RBD == nil || n.UUID != (config.UUID{}) || m.probed[namespaceKey{nqn, n.NSID}] != nil {
		keep(m, nqn, &c)
	}
	return c
}

// sameToHosts reports whether two namespaces have the same identifiers for hosts. Memory that is replaced gets new
// ones, unless the document has them.
func (m *Manager) sameToHosts(nqn nvmeof.NQN, a, b *config.Namespace) bool {
	if b.Memory != nil && b.UUID == (config.UUID{}) && !a.SameStore(b) {
		return false
	}
	x, y := m.namespaceConfig(nqn, a), m.namespaceConfig(nqn, b)
	return x.UUID == y.UUID && x.NGUID == y.NGUID && x.EUI64 == y.EUI64
}

// returns reports whether a namespace that a step removes is added again by a later step, with the same
// identifiers.
func (m *Manager) returns(o *Options, at namespaceKey, n *config.Namespace) bool {
	back := o.coming[at]
	return back != nil && m.sameToHosts(at.nqn, n, back)
}

// exportName returns what a namespace exports, for logs and messages.
func exportName(n *config.Namespace) string {
	return cmp.Or(string(n.Path()), "memory")
}

func (m *Manager) resize(c config.Change) error {
	now := c.New.(*config.Namespace)
	if w := m.waiting[namespaceKey{c.Subsystem, now.NSID}]; w != nil {
		w.namespace = now // it will have that size when it is opened
		return nil
	}
	if at := (namespaceKey{c.Subsystem, now.NSID}); m.foreign[at] != nil { // the target that serves it extends it
		s, err := m.subsystem(c.Subsystem)
		if err != nil {
			return err
		}
		return announceForeign(m, s, at, now)
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
	l := &leaving{what: "the check of the sizes of stores", unfinished: exports()}
	return m.remove(l, func() error { m.target.Revalidate(); return nil }, func() {})
}
