package target

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/namespace"
)

// AddNamespace exports a store. Connected hosts are told by an event.
func (s *Subsystem) AddNamespace(c NamespaceConfig) (*Namespace, error) {
	if c.Store == nil {
		return nil, fmt.Errorf("namespace of %s: Store is missing", s.nqn)
	}
	s.change.Lock()
	defer s.change.Unlock()
	if s.isRemoved() {
		return nil, fmt.Errorf("namespace of %s: the subsystem was removed", s.nqn)
	}
	table := s.table()
	c.Group = cmp.Or(c.Group, 1)
	if c.NSID == 0 {
		c.NSID = table.Free()
	}
	if c.NSID > namespace.Max {
		return nil, fmt.Errorf("namespace %d of %s: at most %d", c.NSID, s.nqn, namespace.Max)
	}
	if !ana.Valid(c.Group) {
		return nil, fmt.Errorf("namespace %d of %s: ANA group %d: 1 to %d", c.NSID, s.nqn, c.Group, ana.MaxGroups)
	}
	if table.Get(c.NSID) != nil {
		return nil, fmt.Errorf("namespace %d of %s exists already", c.NSID, s.nqn)
	}
	ns := newNamespace(s, c)
	if err := s.target.checkIdentity(ns); err != nil {
		return nil, err
	}
	if err := s.target.volumes.Acquire(c.Store, c.Name, c.Reservations, (*storeHolder)(ns)); err != nil {
		return nil, fmt.Errorf("namespace %d (%s): %w", c.NSID, c.Name, err)
	}
	s.succeed(ns.ns)
	// Whoever connects meanwhile is found the second time.
	s.target.dismissOthers(ns.ns.Volume)
	s.replace(c.NSID, ns)
	s.target.dismissOthers(ns.ns.Volume)
	s.regrouped(c.Group)
	s.namespaceChanged(c.NSID)
	return ns, nil
}

// RemoveNamespace ends an export: new commands fail with Invalid Namespace, and
// it returns when those in flight are done. The store can then be closed, if no
// other namespace has it. As long as a store hangs it waits, and nobody else does.
func (s *Subsystem) RemoveNamespace(id capsule.NSID) error {
	ns, err := s.withdraw(id)
	if err != nil {
		return err
	}
	ns.ns.Drain()
	return s.target.volumes.Release(ns.ns.Volume, (*storeHolder)(ns))
}

// withdraw takes a namespace out, of which commands may still be in flight.
func (s *Subsystem) withdraw(id capsule.NSID) (*Namespace, error) {
	s.change.Lock()
	defer s.change.Unlock()
	ns := s.exported(id)
	if ns == nil {
		return nil, fmt.Errorf("namespace %d of %s does not exist", id, s.nqn)
	}
	s.replace(id, nil)
	ns.removed = true
	ns.stopPause()
	s.regrouped(ns.Group())
	s.namespaceChanged(id)
	return ns, nil
}

// exported finds a namespace by its identifier, or returns nil.
func (s *Subsystem) exported(id capsule.NSID) *Namespace {
	for _, ns := range s.Namespaces() {
		if ns.ns.ID == id {
			return ns
		}
	}
	return nil
}

// replace puts a namespace, or nil, where there was another, or nil. Called with change
// held.
func (s *Subsystem) replace(id capsule.NSID, ns *Namespace) {
	list := slices.DeleteFunc(s.Namespaces(), func(o *Namespace) bool { return o.ns.ID == id })
	var seen *namespace.Namespace
	if ns != nil {
		seen = ns.ns
		list = append(list, ns)
		slices.SortFunc(list, func(a, b *Namespace) int { return cmp.Compare(a.ns.ID, b.ns.ID) })
	}
	next := s.table().With(id, seen)
	s.exports.Store(&list)
	s.namespaces.Store(&next)
}

// namespaceChanged tells every controller whose host sees the namespace.
func (s *Subsystem) namespaceChanged(id capsule.NSID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if !c.view.Rights.Load().See(id) {
			continue
		}
		c.do(func() { c.namespaceChanged(id) })
	}
}

// namespaceChanged tells the host.
func (c *Controller) namespaceChanged(id capsule.NSID) {
	c.changed.Add(id)
	c.raise(capsule.EventNamespaceAttribute)
}

// checkIdentity refuses an identifier that another namespace of the target has:
// Linux ignores the second of two.
func (t *Target) checkIdentity(n *Namespace) error {
	for _, s := range t.Subsystems() {
		for _, other := range s.table() {
			if other != nil && n.ns.Clashes(&other.Identity) {
				return fmt.Errorf("namespace %d of %s: its UUID %v, NGUID or EUI-64 is that of namespace %d of %s: "+
					"hosts ignore the second of two; set another", n.ns.ID, n.subsystem.nqn, n.ns.UUID, other.ID, s.nqn)
			}
		}
	}
	return nil
}

// Subsystems lists the subsystems in the order of their names. The slice does
// not change.
func (t *Target) Subsystems() []*Subsystem { return *t.sorted.Load() }

// enlist adds a subsystem to that list. Called with mu held.
func (t *Target) enlist(s *Subsystem) {
	all := t.Subsystems()
	at, _ := slices.BinarySearchFunc(all, s.nqn, func(o *Subsystem, nqn string) int { return cmp.Compare(o.nqn, nqn) })
	all = slices.Insert(slices.Clone(all), at, s)
	t.sorted.Store(&all)
}

// unlist takes one out. Called with mu held.
func (t *Target) unlist(s *Subsystem) {
	all := slices.DeleteFunc(slices.Clone(t.Subsystems()), func(o *Subsystem) bool { return o == s })
	t.sorted.Store(&all)
}
