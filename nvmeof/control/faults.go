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

// Faults are kept where all gateways of a group have them: stores that have failed for good, and whose failure
// nobody has cleared. Whoever opens such a store takes no writes either. They belong to paths.
type Faults interface {
	// All reads those that there are, and returns what is noted of a path: with an empty Path nothing is, and with an
	// error it cannot be read, which concerns no other path.
	All(ctx context.Context) (of func(config.Path) (Fault, error), err error)
	// Add notes a failure, unless there is one of the path.
	Add(ctx context.Context, p config.Path, why string) error
	// Clear reports whether there was one, which is no more.
	Clear(ctx context.Context, p config.Path) (bool, error)
}

// A Fault is the failure of a store.
type Fault struct {
	Path    config.Path `json:"path"`
	Gateway string      `json:"gateway"` // where it has failed
	Time    time.Time   `json:"time"`
	Why     string      `json:"why"`
}

// A faultBook has the failures of stores that gateways share.
type faultBook struct {
	marks Faults // nil: the target is no gateway

	turn sync.Mutex // of who compares stores with marks, and of who clears

	mu    sync.Mutex            // guards what follows
	ahead map[config.Path]Fault // that could not be noted yet
}

// shares reports whether gateways share what a namespace exports, so that they carry its failure on. An
// image fails only where its client has lost it, which is no failure of its content.
func (b *faultBook) shares(n *config.Namespace) bool {
	return b.marks != nil && (n.File != nil || n.Block != nil)
}

// of is the failure that nobody has cleared of what a namespace exports; empty Path: there is none.
func (b *faultBook) of(n *config.Namespace) (Fault, error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	all, err := b.marks.All(ctx)
	if err != nil {
		return Fault{}, fmt.Errorf("the group's note of failures: %w", err)
	}
	if f, err := all(n.Path()); err != nil || f.Path != "" {
		return f, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ahead[n.Path()], nil
}

// apply has a store that was opened take no writes if it has failed before, here or at another gateway.
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

// fail has a store take no writes, and reports whether it can.
func (s *stores) fail(h *heldStore, f Fault) bool {
	store, can := h.store.(backend.Failer)
	if !can {
		return false
	}
	store.Fail(fmt.Errorf("it has failed at gateway %s at %s: %s", f.Gateway, f.Time.Format(time.RFC3339), f.Why))
	s.log.Error("a store has failed, at this gateway or another, and takes no writes until nvmeof namespace clear-fault, at any gateway",
		zap.String("export", string(h.as.Path())), zap.String("gateway", f.Gateway), zap.Time("at", f.Time), zap.String("why", f.Why))
	return true
}

// failure is why a store that gateways share has failed for good; nil: it has not.
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

// add notes a failure for all gateways. One that cannot be noted now is known here until it is.
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

// later are the failures that could not be noted yet.
func (b *faultBook) later() (all []Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.ahead {
		all = append(all, f)
	}
	return all
}

// leave notes the failures of stores that are about to be closed, before another gateway opens them.
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

// FollowFaults tells the group which stores have failed here, stops writes to stores that have
// failed elsewhere, and clears faults that were cleared at another gateway. A gateway calls it
// repeatedly.
func FollowFaults(ctx context.Context, m *Manager) error {
	b := &m.stores.faults
	b.turn.Lock()
	defer b.turn.Unlock()
	type open struct {
		*heldStore
		marked bool
	}
	var all []open // before the marks are read: those that they have were put before
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
		case err != nil: // whoever opens it next does not, and here it is what it is
			errs = append(errs, err)
		case marked && why == nil:
			h.heldStore.marked.Store(m.stores.fail(h.heldStore, f))
		case marked:
			h.heldStore.marked.Store(true)
		case h.marked: // one that cannot be cleared is noted again
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

// clearHeld clears the failure of a store in the namespaces that have it.
func clearHeld(m *Manager, h *heldStore) error {
	for _, d := range m.present().Subsystems {
		for _, n := range d.Namespaces {
			if n.Path() != h.as.Path() {
				continue
			}
			if x, err := m.find(d.NQN, n.NSID); err == nil {
				return m.stores.ask(n.Path(), x.ClearFault) // which may hang, and others have failed too
			}
		}
	}
	return nil // it is about to be closed
}

// heldOf is the open store of a namespace; nil: there is none.
func heldOf(m *Manager, nqn nvmeof.NQN, n *config.Namespace) *heldStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stores.held[keyOf(nqn, n)]
}

// clearShared clears the failure of what a namespace of gateways exports, wherever that is served.
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
		return nil // whoever serves it follows
	case err != nil:
		return &target.StateError{Subsystem: nqn, NSID: capsule.NSID(n.NSID), Err: errors.New("no gateway has noted that its store has failed; its size is accepted at the gateway that serves it")}
	}
	err = m.stores.ask(n.Path(), x.ClearFault)
	if h := heldOf(m, nqn, n); had && h != nil && b.failure(h) == nil {
		h.marked.Store(false)
		return nil // it may not have been known here yet
	}
	return err
}

// sharedNamespace is a namespace of the document whose failure gateways share; nil: it is none.
func sharedNamespace(m *Manager, nqn nvmeof.NQN, nsid int) *config.Namespace {
	if m.cfg.Faults == nil {
		return nil // also while a change is being made
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
