package target

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// AddNamespace exports a store. Connected hosts are notified by an event. If the store, or the store of its
// reservations, hangs, only this call waits, and other calls for the same namespace.
func (s *Subsystem) AddNamespace(c NamespaceConfig) (*Namespace, error) {
	if c.Store == nil {
		return nil, fmt.Errorf("namespace of %s: Store is missing", s.nqn)
	}
	if err := s.awaitedLife(); err != nil {
		return nil, fmt.Errorf("state of %s: %w", s.nqn, err)
	}
	a, err := beginAdding(s, &c)
	if err != nil {
		return nil, err
	}
	defer s.change.endAdding(c.NSID)
	name, volumes := cmp.Or(c.Name, fmt.Sprintf("%T", c.Store)), &s.target.volumes
	if err := volumes.Acquire(c.Store, name, c.reservationStore(), ownerOf(s.nqn, a.ns.Identity, c.Name), a.ns); err != nil {
		return nil, fmt.Errorf("namespace %d (%s): %w", c.NSID, name, err)
	}
	if err := a.export(name); err != nil {
		return nil, errors.Join(err, volumes.Release(a.ns, nil))
	}
	return a.Namespace, nil
}

// An addition is a namespace that is being added: its store is opened meanwhile.
type addition struct {
	*Namespace
	was  *storage.Namespace // the namespace that has its NSID and is away, or nil
	left departure
}

// beginAdding checks the configuration of a namespace. The namespace is in no table until export.
func beginAdding(s *Subsystem, c *NamespaceConfig) (*addition, error) {
	s.change.LockAt(c.NSID)
	defer s.change.Unlock()
	if s.isRemoved() {
		return nil, fmt.Errorf("namespace of %s: the subsystem was removed", s.nqn)
	}
	ns, err := s.newNamespace(*c)
	if err != nil {
		return nil, err
	}
	c.NSID, c.Group = ns.ID(), ns.Group()
	a := &addition{ns, s.table().At(c.NSID), s.departed.find(ns.ns.Identity, c.Store, &s.target.unsettled)}
	ns.ns.Former = a.left.former(a.was, ns.ns)
	s.change.beginAdding(c.NSID)
	return a, nil
}

// export makes a namespace that has its volume visible to hosts. The subsystem exists: its removal waits.
func (a *addition) export(name string) error {
	s := a.subsystem
	s.change.LockAt(0)
	defer s.change.Unlock()
	if err := s.target.checkIdentity(a.Namespace); err != nil { // others may have been added meanwhile
		return err
	}
	s.succeed(a.ns)
	s.resume(a.ns, a.left)
	// The second call covers hosts that connect between the two.
	s.dismissOthers(a.ns.Volume)
	s.replace(a.ID(), a.Namespace)
	s.dismissOthers(a.ns.Volume)
	s.moved(a.was, a.ns)
	a.recordEvent(events.Namespace, events.Info, textAdded+": "+name)
	return nil
}

// newNamespace checks the configuration of a namespace, which may have the NSID of one that is away. Called with
// change held.
func (s *Subsystem) newNamespace(c NamespaceConfig) (*Namespace, error) {
	table := s.table()
	c.Group = cmp.Or(c.Group, 1)
	if c.NSID == 0 {
		c.NSID = table.Free(s.change.isAdding)
	}
	if c.NSID > storage.MaxNamespace {
		return nil, fmt.Errorf("namespace %d of %s: want at most %d", c.NSID, s.nqn, storage.MaxNamespace)
	}
	if !ana.Valid(c.Group) {
		return nil, fmt.Errorf("namespace %d of %s: ANA group %d: want 1 to %d", c.NSID, s.nqn, c.Group, ana.MaxGroups)
	}
	if table.Get(c.NSID) != nil {
		return nil, fmt.Errorf("namespace %d of %s exists already", c.NSID, s.nqn)
	}
	ns := makeNamespace(s, c)
	return ns, s.target.checkIdentity(ns)
}

// moved notifies hosts that one namespace has replaced another at an NSID; nil stands for no namespace. Called
// with change held.
func (s *Subsystem) moved(was, now *storage.Namespace) {
	away := false
	if was != nil && now != nil && was.SameToHosts(now) { // one of the two is at another target
		if was.Shown() != now.Shown() {
			s.regrouped(was.Shown())
			s.regrouped(now.Shown())
			s.anaChanged(nil, now.Shown())
		}
		return
	}
	for _, n := range []*storage.Namespace{was, now} {
		if n != nil {
			s.regrouped(n.Shown())
			away = away || n.Away()
		}
	}
	if now == nil {
		s.namespaceChanged(was.ID)
		return
	}
	s.namespaceChanged(now.ID)
	if away {
		s.anaChanged(nil, now.Shown())
	}
}

// AwaitNamespace adds a namespace whose store is missing for now: it is away until AddNamespace provides the
// store, or RemoveNamespace removes it. Hosts find it listed and inaccessible (NVMe base 2.0, 8.1.3.3): a host
// that used it before a restart keeps its block device, and waits. NSID is required; Store is ignored, and
// Reservations is not read. If the namespace is away already, c replaces its configuration.
func (s *Subsystem) AwaitNamespace(c NamespaceConfig) error {
	s.change.LockAt(c.NSID)
	defer s.change.Unlock()
	if s.isRemoved() {
		return fmt.Errorf("namespace of %s: the subsystem was removed", s.nqn)
	}
	if c.NSID == 0 {
		return fmt.Errorf("namespace of %s: a namespace that waits for its store needs an NSID", s.nqn)
	}
	ns, err := s.newNamespace(c)
	if err != nil {
		return err
	}
	was := s.table().At(c.NSID)
	if c.Known != nil {
		ns.ns.Known = storage.ShapeOf(*c.Known, c.reservationStore() != nil)
		s.succeed(ns.ns)
	}
	if was != nil && was.Away() && was.Identity == ns.ns.Identity {
		ns.ns.Inherit(was)
	}
	g := s.target.cfg.Gateway
	ns.ns.SetElsewhere(!g.serves(ns.Group()))
	ns.ns.Former = s.departed.find(ns.ns.Identity, nil, &s.target.unsettled).former(was, ns.ns)
	s.replace(c.NSID, ns)
	ns.ns.SetElsewhere(!g.serves(ns.Group())) // again, since Gateway.set may have missed it before
	s.moved(was, ns.ns)
	if !g.serves(ns.Group()) {
		return nil // the target that serves it reports whether its store is there
	}
	ns.recordEvent(events.Namespace, events.Warning, textAdded+" without its store; it is inaccessible until the store is available: "+c.Name)
	return nil
}

// RemoveNamespace ends an export: new commands fail with Invalid Namespace, and it returns when those in flight
// have completed. If no other namespace exports the store, the store can then be closed, and has been flushed; a
// failure of the flush is logged. A gateway flushes with the group instead. If a store hangs, only this call
// waits. If a host does not send the data of its command, its queue ends.
func (s *Subsystem) RemoveNamespace(id capsule.NSID) error { return endFlushed(s, id, false) }

// SuspendNamespace is RemoveNamespace for a namespace that will return: meanwhile it is away, as after
// AwaitNamespace. When AddNamespace brings it back, with the same identifiers, it has the same registrants and
// reservation as before, whatever its Reservations saved.
func (s *Subsystem) SuspendNamespace(id capsule.NSID) error { return endFlushed(s, id, true) }

// endFlushed calls end, and flushes a store that no other namespace exports. Until that has succeeded, the
// subsystem cannot end in order. A store that has failed permanently is an exception: it reports errors to hosts
// itself.
func endFlushed(s *Subsystem, id capsule.NSID, back bool) error {
	if s.target.cfg.Gateway != nil { // it is flushed with its group
		return s.end(id, back, nil)
	}
	s.life.left.Add(1) // before endings of the subsystem no longer find it in the table
	durable := true
	err := s.end(id, back, func(v *storage.Volume) {
		durable, _ = flushVolumes(v) // errors are logged
		durable = durable || v.Latched() != nil
	})
	if durable {
		s.life.left.Add(-1)
	}
	return err
}

// end ends an export permanently or, with back, until the namespace returns. Ending is passed to
// [storage.Volumes.Release].
func (s *Subsystem) end(id capsule.NSID, back bool, ending func(*storage.Volume)) error {
	ns, err := s.withdraw(id, back)
	if ns == nil {
		s.target.cfg.Gateway.awaitLeft(s, id) // it may be away because its group was given back
		return err
	}
	ended := make(chan struct{})
	ns.ns.Drain(func() { close(ended) })
	s.target.urge(ended, nil, s.target.fetchTimeout, func(q *queue) bool { return q.holdsUp(ns.is) })
	countLate(s, ns.ns)
	return s.target.volumes.Release(ns.ns, ending)
}

// withdraw removes a namespace, whose commands may still be in flight. It returns nil if the namespace was away.
func (s *Subsystem) withdraw(id capsule.NSID, back bool) (*Namespace, error) {
	s.change.LockAt(id)
	defer s.change.Unlock()
	was, ns := s.table().At(id), s.exported(id)
	if was == nil {
		return nil, fmt.Errorf("namespace %d of %s does not exist", id, s.nqn)
	}
	var left *Namespace
	if back {
		left = &Namespace{subsystem: s, ns: storage.NewNamespace(was.Identity, was.Group(), was.ReadOnly())}
		if left.ns.Former = was.Former; was.Volume != nil {
			left.ns.Former = was.Volume.Reservations
		}
		left.ns.Protect(was.Protection())
	}
	s.replace(id, left)
	if ns != nil {
		s.departed.note(ns.ns, &s.target.unsettled)
		ns.removed = true
		ns.stopPause()
	}
	parted(s, was, left)
	if ns != nil {
		s.depart(ns.ns) // it may return before its store has completed all operations
	}
	return ns, nil
}

// parted notifies hosts and administrators that a namespace was removed or, if left is not nil, was replaced by
// left, which is away. Called with change held.
func parted(s *Subsystem, was *storage.Namespace, left *Namespace) {
	gone := Namespace{subsystem: s, ns: was}
	if left != nil {
		s.moved(was, left.ns)
		gone.recordEvent(events.Namespace, events.Warning, "namespace inaccessible until its store is back")
	} else {
		s.moved(was, nil)
		gone.recordEvent(events.Namespace, events.Info, textRemoved)
	}
}

// exported returns the namespace with an identifier, or nil.
func (s *Subsystem) exported(id capsule.NSID) *Namespace {
	for _, ns := range s.Namespaces() {
		if ns.ns.ID == id {
			return ns
		}
	}
	return nil
}

// replace sets or, if ns is nil, removes the namespace with an identifier. A namespace that is away is only in the
// table of hosts. Called with change held.
func (s *Subsystem) replace(id capsule.NSID, ns *Namespace) {
	list := slices.DeleteFunc(s.Namespaces(), func(o *Namespace) bool { return o.ns.ID == id })
	var seen *storage.Namespace
	if ns != nil {
		seen = ns.ns
	}
	if ns != nil && !seen.Away() {
		list = append(list, ns)
		slices.SortFunc(list, func(a, b *Namespace) int { return cmp.Compare(a.ns.ID, b.ns.ID) })
	}
	next := s.table().With(id, seen)
	s.exports.Store(&list)
	s.namespaces.Store(next)
}

// namespaceChanged notifies every controller whose host sees the namespace.
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

// checkIdentity returns an error if another namespace of the target has one of the identifiers: Linux ignores the
// second of two.
func (t *Target) checkIdentity(n *Namespace) error {
	for _, s := range t.Subsystems() {
		for other := range s.table().Listed {
			if (other.ID != n.ns.ID || s != n.subsystem) && n.ns.Clashes(&other.Identity) {
				return fmt.Errorf("namespace %d of %s: its UUID %v, NGUID or EUI-64 is also that of namespace %d of %s: "+
					"hosts would ignore the second of the two; give it another", n.ns.ID, n.subsystem.nqn, n.ns.UUID, other.ID, s.nqn)
			}
		}
	}
	return nil
}

// Subsystems lists the subsystems in the order of their names. The slice is not changed later.
func (t *Target) Subsystems() []*Subsystem { return *t.sorted.Load() }

// A subsystemList lists subsystems by name. It is changed under Target.mu.
type subsystemList struct{ atomic.Pointer[[]*Subsystem] }

func (l *subsystemList) add(s *Subsystem) {
	all := *l.Load()
	at, _ := slices.BinarySearchFunc(all, s.nqn, func(o *Subsystem, nqn nvmeof.NQN) int { return cmp.Compare(o.nqn, nqn) })
	all = slices.Insert(slices.Clone(all), at, s)
	l.Store(&all)
}

func (l *subsystemList) remove(s *Subsystem) {
	all := slices.DeleteFunc(slices.Clone(*l.Load()), func(o *Subsystem) bool { return o == s })
	l.Store(&all)
}
