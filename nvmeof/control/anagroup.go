package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A foreign is a namespace whose ANA group another target serves: its store is not open here. The Manager's mutex
// guards it.
type foreign struct {
	namespace *config.Namespace
	why       string             // why its properties are not known, so that hosts find it not ready; empty: they are known
	cancel    context.CancelFunc // ends the retries of a probe; nil: there are none
}

// isForeign reports whether another target serves the namespace.
func isForeign(m *Manager, n *config.Namespace) bool {
	return m.cfg.Gateway != nil && !m.cfg.Gateway.Serves(groupOf(n))
}

func groupOf(n *config.Namespace) capsule.ANAGroup { return capsule.ANAGroup(cmp.Or(n.ANAGroup, 1)) }

// announceForeign makes a namespace visible to hosts whose store another target has open. The caller holds mu.
func announceForeign(m *Manager, s *target.Subsystem, at namespaceKey, n *config.Namespace) error {
	forgetForeign(m, at)
	err := probe(m, at, n)
	if err := s.AwaitNamespace(awayConfig(m, at.nqn, n)); err != nil {
		return err
	}
	f := &foreign{namespace: n}
	m.foreign[at] = f
	if err != nil {
		f.why = err.Error()
		m.log.Warn("size of a namespace that another target serves is not known, so the namespace is not ready for hosts here", zap.String("subsystem", string(at.nqn)),
			zap.Int("nsid", at.nsid), zap.String("export", exportName(n)), zap.Error(err))
		f.cancel = retry(m, func(ctx context.Context) bool { return probeAgain(ctx, m, at) })
	}
	return nil
}

// probeForeign returns the properties of a foreign namespace.
func probeForeign(m *Manager, n *config.Namespace) (Probed, error) {
	return reach(&m.stores.reacher, n.Path(), func() (Probed, error) {
		if m.stores.isNoted(n) {
			return m.stores.probeNoted(n, m.cfg.Probe)
		}
		return m.cfg.Probe(n)
	}, nil)
}

// probe stores the result of probeForeign. The caller holds mu.
func probe(m *Manager, at namespaceKey, n *config.Namespace) error {
	p, err := probeForeign(m, n)
	if err != nil {
		if m.stores.isNoted(n) {
			delete(m.probed, at) // it may be that of another file
		}
		return err
	}
	m.probed[at] = &p
	return nil
}

// probeAgain probes a foreign namespace again. It reports whether no retry is needed.
func probeAgain(ctx context.Context, m *Manager, at namespaceKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.foreign[at]
	if f == nil || ctx.Err() != nil {
		return true
	}
	m.stores.begin(m.startTimeout)
	err := probe(m, at, f.namespace)
	if err == nil {
		var s *target.Subsystem
		if s, err = m.subsystem(at.nqn); err == nil {
			err = s.AwaitNamespace(awayConfig(m, at.nqn, f.namespace))
		}
	}
	if err != nil {
		f.why = err.Error()
		return false
	}
	f.why = ""
	return true
}

// forgetForeign forgets a foreign namespace, and reports whether it was one. The caller holds mu.
func forgetForeign(m *Manager, at namespaceKey) bool {
	f := m.foreign[at]
	if f == nil {
		return false
	}
	if f.cancel != nil {
		f.cancel()
	}
	delete(m.foreign, at)
	return true
}

// probes is how many probes are made at a time.
const probes = 16

// RefreshForeign checks the sizes of the namespaces of an ANA group that another target serves. That target may
// have enlarged one. Hosts are notified of changes. If a store cannot be checked, the size stays the same. Changes
// of the document do not wait for it.
func RefreshForeign(m *Manager, group capsule.ANAGroup) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.stores.begin(m.startTimeout)
	all := foreignOf(m, group)
	m.mu.Unlock()
	ats := slices.Collect(maps.Keys(all))
	inParallel(probes, len(ats), func(i int) { // each ends within the time limit of its store
		n := all[ats[i]]
		if p, err := probeForeign(m, n); err == nil {
			refreshed(m, ats[i], n, p)
		}
	})
}

// refreshed notifies hosts if the properties of a foreign namespace have changed.
func refreshed(m *Manager, at namespaceKey, n *config.Namespace, p Probed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, before := m.foreign[at], m.probed[at]
	if m.closed || f == nil || f.namespace != n || f.why != "" || before != nil && before.Info == p.Info {
		return
	}
	m.probed[at] = &p
	s, err := m.subsystem(at.nqn)
	if err == nil {
		err = s.AwaitNamespace(awayConfig(m, at.nqn, n))
	}
	if err != nil {
		m.log.Warn("hosts could not be notified of a namespace that changed at another target", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
	}
}

// alterForeign changes a namespace that another target serves before the change, after it, or both. The caller
// holds mu.
func alterForeign(m *Manager, s *target.Subsystem, at namespaceKey, now *config.Namespace) error {
	if isForeign(m, now) && m.foreign[at] != nil {
		return announceForeign(m, s, at, now)
	}
	if forgetForeign(m, at) {
		if err := m.addNamespace(s, at.nqn, now); err != nil {
			m.await(s, at, now, err)
		}
		return nil
	}
	if !m.forget(at) {
		if err := takeOut(m, at, now, true, s.SuspendNamespace); err != nil {
			return err
		}
	}
	return announceForeign(m, s, at, now)
}

// foreignOf returns the foreign namespaces of a group. The caller holds mu.
func foreignOf(m *Manager, group capsule.ANAGroup) map[namespaceKey]*config.Namespace {
	all := map[namespaceKey]*config.Namespace{}
	for at, f := range m.foreign {
		if groupOf(f.namespace) == group {
			all[at] = f.namespace
		}
	}
	return all
}

// ServeGroup opens the stores of the namespaces of an ANA group, and then serves the group: see
// [target.Gateway.Serve]. The previous owner of the group has to be fenced. A namespace that cannot
// be opened stays inaccessible and is retried, like one that waits.
func ServeGroup(ctx context.Context, m *Manager, group capsule.ANAGroup, epoch uint64) error {
	if m.cfg.Gateway == nil {
		return errNoGateway
	}
	m.mu.Lock()
	m.stores.begin(m.startTimeout)
	want := foreignOf(m, group)
	m.mu.Unlock()
	found := openAll(m, want)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer found.close(m)
	if m.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for at, n := range foreignOf(m, group) {
		s, err := m.subsystem(at.nqn)
		if err != nil {
			continue // it is being removed
		}
		if err = found.use(m, at, n); err == nil {
			err = m.addNamespace(s, at.nqn, n)
		}
		forgetForeign(m, at)
		if err != nil {
			m.await(s, at, n, err)
		}
	}
	if err := ctx.Err(); err != nil { // the group was lost while thousands of namespaces were added
		return err
	}
	return m.cfg.Gateway.Serve(group, epoch)
}

var errNoGateway = errors.New("control: Config.Gateway is missing: the target serves all groups by itself")

// An opened is a store that was opened without the Manager's mutex, or the error of opening it.
type opened struct {
	key   storeKey
	as    *config.Namespace
	store *heldStore
	err   error
}

type openedStores map[storeKey]*opened

// openings is how many stores are opened at a time. Each may wait for another machine.
const openings = 16

// openAll opens the stores of namespaces. If several groups call it, each of which may have thousands of
// namespaces, they are served in order.
func openAll(m *Manager, want map[namespaceKey]*config.Namespace) openedStores {
	all := openedStores{}
	var each []*opened
	for at, n := range want {
		key := keyOf(at.nqn, n)
		if all[key] != nil {
			continue // another namespace has the same store
		}
		all[key] = &opened{key: key, as: n}
		each = append(each, all[key])
	}
	turns := int64(min(openings, len(each)))
	if m.opening.Acquire(m.context, turns) != nil {
		return openedStores{} // the Manager is closed
	}
	defer m.opening.Release(turns)
	inParallel(int(turns), len(each), func(i int) { // each ends when the store is open, or hangs for long
		o := each[i]
		o.store, o.err = reach(&m.stores.reacher, o.as.Path(), func() (*heldStore, error) { return m.stores.openNow(o.as, false) },
			func(h *heldStore) { m.openedLate(o.key, h) })
	})
	return all
}

// inParallel calls f for 0 to n-1, at most so many at a time, and returns when all calls have.
func inParallel(most, n int, f func(int)) {
	turns := make(chan struct{}, most)
	var wait sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		wait.Go(func() { // ends with f
			defer func() { <-turns }()
			f(i)
		})
	}
	wait.Wait()
}

// use hands an opened store over to the Manager. The caller holds mu.
func (all openedStores) use(m *Manager, at namespaceKey, n *config.Namespace) error {
	key := keyOf(at.nqn, n)
	o := all[key]
	switch {
	case m.stores.held[key] != nil || o == nil || !n.SameStore(o.as):
		return nil // it is open already, or was added meanwhile
	case o.store != nil:
		m.stores.hold(key, o.store)
		o.store = nil
	}
	return o.err
}

// close closes the stores that are not used. The caller holds mu.
func (all openedStores) close(m *Manager) {
	for _, o := range all {
		if o.store != nil {
			closedUnused(m, o.store, m.stores.last(o.as.Path(), o.store.close))
		}
	}
	if err := m.stores.settle(); err != nil {
		m.log.Warn("closing an unused store failed", zap.Error(err))
	}
}

// DrainGroup gives an ANA group back: see [target.Gateway.Drain]. When it returns without an error,
// the stores of the namespaces are closed, and another target can open them. A store that hangs
// does not keep others open.
func DrainGroup(ctx context.Context, m *Manager, group capsule.ANAGroup) error {
	return giveBack(ctx, m, group, (*target.Gateway).Drain)
}

// ReleaseGroup closes what the namespaces of an ANA group export that the target may have lost:
// see [target.Gateway.Release]. What hangs keeps nothing else open.
func ReleaseGroup(ctx context.Context, m *Manager, group capsule.ANAGroup) error {
	return giveBack(ctx, m, group, (*target.Gateway).Release)
}

func giveBack(ctx context.Context, m *Manager, group capsule.ANAGroup, how func(*target.Gateway, context.Context, capsule.ANAGroup) error) error {
	if m.cfg.Gateway == nil {
		return errNoGateway
	}
	released := make(chan struct{})
	closed := closeFreed(m, group, released)
	err := how(m.cfg.Gateway, ctx, group)
	for err == nil && keepsOpen(m, group) { // a namespace was added just then
		err = how(m.cfg.Gateway, ctx, group)
	}
	close(released)
	err = errors.Join(err, <-closed, awaitAhead(ctx, m, group), awaitErasures(ctx, m, group))
	closeHung(m, group, err)
	return err
}

// keepsOpen reports whether the target has namespaces of a group that it does not serve. It takes mu, so a
// namespace that was being added while the group was still served is found, and none is added later.
func keepsOpen(m *Manager, group capsule.ANAGroup) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Gateway.Serves(group) {
		return false
	}
	for _, s := range m.target.Subsystems() {
		for _, n := range s.Namespaces() {
			if n.Group() == group {
				return true
			}
		}
	}
	return false
}

// closeHung closes the stores of a group that hung, when they have ended their commands.
func closeHung(m *Manager, group capsule.ANAGroup, err error) {
	var hung *target.DrainError
	if errors.As(err, &hung) && hung.Ended != nil {
		closeFreed(m, group, hung.Ended) // errors are logged
	}
}

// Interval after which closeFreed looks for released stores. It begins with firstFreed and doubles up to lastFreed.
const (
	firstFreed = 50 * time.Millisecond
	lastFreed  = time.Second
)

// closeFreed closes the stores of a group's namespaces, each soon after the target has released it, until released
// is closed. Then it sends the errors to closed. It returns nil if it was already called for the same release.
func closeFreed(m *Manager, group capsule.ANAGroup, released <-chan struct{}) (closed <-chan error) {
	ended := make(chan error, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		ended <- ErrClosed
		return ended
	}
	if m.releases[released] {
		return nil
	}
	m.releases[released] = true
	m.removals.Go(func() { // ends when the stores have finished, or with the Manager
		ended <- closeUntil(m, group, released)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.releases, released)
	})
	return ended
}

func closeUntil(m *Manager, group capsule.ANAGroup, released <-chan struct{}) (err error) {
	for wait, last := firstFreed, false; !last && !errors.Is(err, ErrClosed); wait = min(2*wait, lastFreed) {
		select {
		case <-released:
			last = true
		case <-time.After(wait):
		}
		err = errors.Join(err, closeForeign(m, group))
	}
	return err
}

// closeForeign closes the stores of namespaces that the target has given back. It closes them without mu, since
// that may wait for another machine: other groups are closed at the same time, and changes go on. When it returns,
// stores that an earlier call began to close are closed too.
func closeForeign(m *Manager, group capsule.ANAGroup) error {
	turn := closingTurn(m, group)
	turn.Lock()
	defer turn.Unlock()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	unused, err := releaseForeignStores(m, group)
	m.removals.Add(1)
	defer m.removals.Done()
	m.mu.Unlock()
	failed := m.stores.faults.leave(unused)
	if err = errors.Join(failed, m.stores.closeAll(unused), err); err != nil {
		err = fmt.Errorf("ANA group %d is released, but its stores were not closed cleanly: %w", group, err)
		m.log.Error("closing the stores of an ANA group failed", zap.Uint32("group", uint32(group)), zap.Error(err))
	}
	return err
}

// closingTurn returns the mutex of those who close the stores of a group.
func closingTurn(m *Manager, group capsule.ANAGroup) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turns[group] == nil {
		m.turns[group] = new(sync.Mutex)
	}
	return m.turns[group]
}

// releaseForeignStores makes the released namespaces of a group foreign, and returns their stores. The caller holds
// mu.
func releaseForeignStores(m *Manager, group capsule.ANAGroup) ([]*heldStore, error) {
	if m.cfg.Gateway.Serves(group) { // it is served again, since the command that hung has ended
		return nil, nil
	}
	free := freed(m, group)
	if len(free) == 0 {
		return nil, nil
	}
	m.stores.begin(m.startTimeout)
	for at, n := range free {
		if s, err := m.subsystem(at.nqn); err == nil { // otherwise it is being removed
			becomeForeign(m, s, at, n)
		}
	}
	m.stores.keepCreated()
	unused := m.stores.takeUnused()
	return unused, m.stores.sweep()
}

// freed returns the namespaces of a group whose stores the target does not use and that are not foreign yet. The
// caller holds mu.
func freed(m *Manager, group capsule.ANAGroup) map[namespaceKey]*config.Namespace {
	free := map[namespaceKey]*config.Namespace{}
	for _, d := range m.doc.Subsystems {
		for _, n := range d.Namespaces {
			if at := (namespaceKey{d.NQN, n.NSID}); groupOf(n) == group && m.foreign[at] == nil {
				free[at] = n
			}
		}
	}
	if len(free) == 0 {
		return nil
	}
	for _, s := range m.target.Subsystems() {
		for _, n := range s.Namespaces() {
			delete(free, namespaceKey{s.NQN(), int(n.ID())})
		}
	}
	for nqn, leaving := range m.cfg.Gateway.Leaving(group) { // read after the namespaces above: one is in that list until it is in this one
		for _, id := range leaving {
			delete(free, namespaceKey{nqn, int(id)})
		}
	}
	return free
}

// becomeForeign makes a namespace foreign that the target has given back. The caller holds mu.
func becomeForeign(m *Manager, s *target.Subsystem, at namespaceKey, n *config.Namespace) {
	if m.forget(at) { // its store was not open
		if err := announceForeign(m, s, at, n); err != nil {
			m.log.Warn("hosts could not be notified of a namespace that another target serves", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
		}
		return
	}
	if h := m.stores.held[keyOf(at.nqn, n)]; h != nil {
		p := &Probed{Info: h.store.Info()}
		if marked, ok := h.store.(backend.Marked); ok {
			p.Mark = marked.Mark()
		}
		m.probed[at] = p
	}
	m.stores.release(at.nqn, n)
	m.foreign[at] = &foreign{namespace: n}
}

// GatewayStatus is what a gateway serves at present.
type GatewayStatus struct {
	Fenced string        `json:"fenced,omitempty"` // why it serves nothing; empty: it is not fenced
	Groups []ServedGroup `json:"groups"`
}

// ServedGroup is an ANA group that the target serves.
type ServedGroup struct {
	Group int    `json:"group"`
	Epoch uint64 `json:"epoch"`
}

// Serves reports whether the target serves a group. A target that is not a gateway serves all.
func (g *GatewayStatus) Serves(group int) bool {
	if g == nil {
		return true
	}
	for _, s := range g.Groups {
		if s.Group == group {
			return true
		}
	}
	return false
}

func gatewayStatus(g *target.Gateway) *GatewayStatus {
	if g == nil {
		return nil
	}
	out := &GatewayStatus{Fenced: g.Fenced(), Groups: []ServedGroup{}}
	for _, o := range g.Owned() {
		out.Groups = append(out.Groups, ServedGroup{int(o.Group), o.Epoch})
	}
	return out
}

// foreignWaiting returns the foreign namespaces whose properties are not known. The caller holds mu.
func foreignWaiting(m *Manager) (all []Waiting) {
	for at, f := range m.foreign {
		if f.why != "" {
			all = append(all, Waiting{Subsystem: at.nqn, NSID: at.nsid, Export: exportName(f.namespace),
				Why: "another target serves it, and its size is not known here: " + f.why, Since: m.started})
		}
	}
	return all
}

// uuidOf returns the UUID of a namespace whose store is not open.
func uuidOf(m *Manager, nqn nvmeof.NQN, n *config.Namespace, p *Probed) config.UUID {
	switch {
	case n.UUID != (config.UUID{}):
		return n.UUID
	case p != nil:
		return config.DefaultUUID(nqn, n.NSID, exportName(n), p.Mark)
	}
	return config.DefaultUUID(nqn, n.NSID, exportName(n), m.stores.mark(n))
}
