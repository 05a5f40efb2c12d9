package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Faults stores, for all gateways of a group, which stores have failed and were not cleared. A gateway that opens
// such a store makes it refuse writes. Faults belong to paths.
type Faults interface {
	// All reads all faults. of returns the fault of a path, whose Path is empty if there is none, or an error if
	// the entry of that path cannot be read.
	All(ctx context.Context) (of func(config.Path) (Fault, error), err error)
	// Add stores a fault, unless the path has one.
	Add(ctx context.Context, p config.Path, why string) error
	// Clear removes the fault of a path, and reports whether there was one.
	Clear(ctx context.Context, p config.Path) (bool, error)
}

// A Fault is the failure of a store.
type Fault struct {
	Path    config.Path `json:"path"`
	Gateway string      `json:"gateway"` // gateway at which it has failed
	Time    time.Time   `json:"time"`
	Why     string      `json:"why"`
}

// A faultBook has the failures of stores that gateways share.
type faultBook struct {
	marks Faults // nil: the target is not a gateway

	turn sync.Mutex // held to compare stores with marks, and to clear a fault

	mu    sync.Mutex            // guards the following
	ahead map[config.Path]Fault // faults that could not be stored yet
}

// shares reports whether gateways share the store of a namespace, so that its failure applies to all. An image only
// fails when its client has lost access to it, which does not affect its content.
func (b *faultBook) shares(n *config.Namespace) bool {
	return b.marks != nil && (n.File != nil || n.Block != nil)
}

// of returns the fault of a namespace's store; its Path is empty if there is none.
func (b *faultBook) of(n *config.Namespace) (Fault, error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	all, err := b.marks.All(ctx)
	if err != nil {
		return Fault{}, fmt.Errorf("read the group's list of failed stores: %w", err)
	}
	if f, err := all(n.Path()); err != nil || f.Path != "" {
		return f, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ahead[n.Path()], nil
}

// apply makes a newly opened store refuse writes if it has failed before, here or at another gateway.
func (s *stores) apply(h *heldStore) error {
	if !s.faults.shares(h.as) {
		return nil
	}
	f, err := s.faults.of(h.as)
	if err != nil || f.Path == "" {
		return err
	}
	h.marked.Store(s.fail(h, f))
	return nil
}

// fail makes a store refuse writes, and reports whether it can.
func (s *stores) fail(h *heldStore, f Fault) bool {
	store, can := h.store.(backend.Failer)
	if !can {
		return false
	}
	store.Fail(fmt.Errorf("it failed at gateway %s at %s: %s", f.Gateway, f.Time.Format(time.RFC3339), f.Why))
	s.log.Error("a store failed, at this gateway or another, and refuses writes until nvmeof namespace clear-fault is run at any gateway",
		zap.String("export", string(h.as.Path())), zap.String("gateway", f.Gateway), zap.Time("at", f.Time), zap.String("why", f.Why))
	return true
}

// failure returns why a store that gateways share has failed permanently, or nil.
func (b *faultBook) failure(h *heldStore) error {
	l, can := h.store.(backend.Latcher)
	if !can || !b.shares(h.as) {
		return nil
	}
	err := l.Failed()
	if errors.Is(err, backend.ErrFenced) {
		return nil
	}
	return err
}

// add stores a fault for all gateways. If that fails, this gateway keeps it until it succeeds.
func (b *faultBook) add(ctx context.Context, p config.Path, why string) error {
	b.mu.Lock()
	f, known := b.ahead[p]
	if !known {
		f = Fault{Path: p, Gateway: "this one", Time: time.Now(), Why: why}
	}
	b.ahead[p] = f
	b.mu.Unlock()
	err := b.marks.Add(ctx, p, f.Why)
	if err == nil {
		b.forget(p)
	}
	return err
}

func (b *faultBook) forget(p config.Path) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ahead, p)
}

// later returns the faults that could not be stored yet.
func (b *faultBook) later() (all []Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.ahead {
		all = append(all, f)
	}
	return all
}

// leave stores the failures of stores that are about to be closed, before another gateway opens them.
func (b *faultBook) leave(unused []*heldStore) error {
	var errs []error
	for _, h := range unused {
		if why := b.failure(h); why != nil && !h.marked.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), noteTime)
			errs = append(errs, b.add(ctx, h.as.Path(), why.Error()))
			cancel()
		}
	}
	return errors.Join(errs...)
}

// FollowFaults stores for the group which stores have failed here, stops writes to stores that have failed
// elsewhere, and clears faults that were cleared at another gateway. A gateway calls it repeatedly.
func FollowFaults(ctx context.Context, m *Manager) error {
	b := &m.stores.faults
	b.turn.Lock()
	defer b.turn.Unlock()
	type open struct {
		*heldStore
		marked bool
	}
	var all []open // taken before the marks are read, so that a mark of one of these stores was set before
	m.mu.Lock()
	for _, h := range m.stores.held {
		if b.shares(h.as) {
			all = append(all, open{h, h.marked.Load()})
		}
	}
	m.mu.Unlock()
	later := b.later()
	marks, err := b.marks.All(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		f, err := marks(h.as.Path())
		marked, why := f.Path != "", b.failure(h.heldStore)
		switch {
		case err != nil: // an unreadable entry changes nothing here; the next gateway that opens the store reports it
			errs = append(errs, err)
		case marked && why == nil:
			h.heldStore.marked.Store(m.stores.fail(h.heldStore, f))
		case marked:
			h.heldStore.marked.Store(true)
		case h.marked: // one that cannot be cleared is stored again
			h.heldStore.marked.Store(false)
			if why != nil {
				errs = append(errs, clearHeld(m, h.heldStore))
			}
		case why != nil:
			err := b.add(ctx, h.as.Path(), why.Error())
			h.heldStore.marked.Store(err == nil)
			errs = append(errs, err)
		}
	}
	for _, f := range later {
		errs = append(errs, b.add(ctx, f.Path, f.Why))
	}
	return errors.Join(errs...)
}

// clearHeld clears the failure of a store in a namespace that uses it.
func clearHeld(m *Manager, h *heldStore) error {
	for _, d := range m.present().Subsystems {
		for _, n := range d.Namespaces {
			if n.Path() != h.as.Path() {
				continue
			}
			if x, err := m.find(d.NQN, n.NSID); err == nil {
				return m.stores.ask(n.Path(), x.ClearFault) // it may hang, while others have failed too
			}
		}
	}
	return nil // the store is about to be closed
}

// heldOf returns the open store of a namespace, or nil.
func heldOf(m *Manager, nqn nvmeof.NQN, n *config.Namespace) *heldStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stores.held[keyOf(nqn, n)]
}

// clearShared clears the failure of a store that gateways share, whichever gateway serves it.
func clearShared(m *Manager, nqn nvmeof.NQN, n *config.Namespace) error {
	b := &m.stores.faults
	b.turn.Lock()
	defer b.turn.Unlock()
	ctx, cancel := context.WithTimeout(m.context, noteTime)
	defer cancel()
	had, err := b.marks.Clear(ctx, n.Path())
	if err != nil {
		return &GroupError{err}
	}
	b.forget(n.Path())
	x, err := m.find(nqn, n.NSID)
	switch {
	case err != nil && had:
		return nil // the gateway that serves it follows
	case err != nil:
		return &target.StateError{Subsystem: nqn, NSID: capsule.NSID(n.NSID), Err: errors.New("no gateway has recorded a failure of its store; to accept its size, run this at the gateway that serves it")}
	}
	err = m.stores.ask(n.Path(), x.ClearFault)
	if h := heldOf(m, nqn, n); had && h != nil && b.failure(h) == nil {
		h.marked.Store(false)
		return nil // the failure may not have been known here yet
	}
	return err
}

// sharedNamespace returns a namespace of the document if gateways share its failure, else nil.
func sharedNamespace(m *Manager, nqn nvmeof.NQN, nsid int) *config.Namespace {
	if m.cfg.Faults == nil {
		return nil // without taking mu, so that it does not wait for a change
	}
	for _, d := range m.present().Subsystems {
		for _, n := range d.Namespaces {
			if d.NQN == nqn && n.NSID == nsid && m.stores.faults.shares(n) {
				return n
			}
		}
	}
	return nil
}
