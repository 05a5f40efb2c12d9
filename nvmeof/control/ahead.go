package control

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An ahead is a store that is opened without the Manager's mutex, for a namespace that waits for it. A file system
// or a device may take long, and so may the release of a lock by the target that had the file before.
type ahead struct {
	as    *config.Namespace
	done  chan struct{} // closed when opening has ended; then store and err are set, and only the holder of the Manager's mutex changes them
	store *heldStore
	err   error
	ended chan struct{} // closed when the namespace uses the store, or the store is closed
}

// openAhead opens the store of a namespace. It returns nil if there is nothing to open, if it is being opened
// already, or if another target serves the namespace by now.
func openAhead(m *Manager, key storeKey, n *config.Namespace) *ahead {
	a := &ahead{as: n, done: make(chan struct{}), ended: make(chan struct{})}
	m.mu.Lock()
	_, moved := m.stores.moved[key]
	if m.closed || isForeign(m, n) || n.Memory != nil || moved || m.stores.held[key] != nil || m.stores.aside[key] != nil || m.stores.ahead[key] != nil {
		m.mu.Unlock()
		return nil
	}
	m.stores.ahead[key] = a
	m.mu.Unlock()
	defer close(a.done)
	if a.err = m.opening.Acquire(m.context, 1); a.err != nil {
		return a // the Manager is closed
	}
	defer m.opening.Release(1)
	a.store, a.err = reach(&m.stores.reacher, n.Path(), func() (*heldStore, error) { return m.stores.openNow(n, false) },
		func(h *heldStore) { m.openedLate(key, h) })
	return a
}

// endAhead closes a store that was opened ahead and is not used. The caller holds mu.
func endAhead(m *Manager, key storeKey, a *ahead) {
	if a == nil {
		return
	}
	defer close(a.ended)
	if m.stores.ahead[key] == a {
		delete(m.stores.ahead, key)
	}
	if h := a.store; h != nil {
		a.store = nil
		closedUnused(m, h, m.stores.last(h.as.Path(), h.close))
	}
}

// awaitAhead waits until no store of an ANA group that the target no longer serves is open ahead. It waits for a
// store that hangs only until ctx ends.
func awaitAhead(ctx context.Context, m *Manager, group capsule.ANAGroup) error {
	var all []*ahead
	m.mu.Lock()
	for _, a := range m.stores.ahead {
		if groupOf(a.as) == group {
			all = append(all, a)
		}
	}
	m.mu.Unlock()
	for _, a := range all {
		select {
		case <-a.ended:
		case <-ctx.Done():
			return fmt.Errorf("ANA group %d is released, but %s is still being opened: %w", group, exportName(a.as), ctx.Err())
		}
	}
	return nil
}

// takeAhead returns the store of a namespace that was opened ahead, or the error of opening it. It returns nil and
// nil if that was not tried for this namespace. The caller holds the Manager's mutex.
func (s *stores) takeAhead(key storeKey, n *config.Namespace) (*heldStore, error) {
	a := s.ahead[key]
	if a == nil {
		return nil, nil
	}
	delete(s.ahead, key)
	<-a.done // takes no longer than opening it now, after the stores that are ahead of it
	h := a.store
	a.store = nil
	switch {
	case h == nil && (s.wanted(n) || !n.SameStore(a.as)):
		return nil, nil // the error may not apply to this namespace
	case h == nil || n.SameStore(a.as):
		return h, a.err
	}
	if err := s.last(h.as.Path(), h.close); err != nil {
		s.log.Warn("closing an unused store failed", zap.String("export", exportName(h.as)), zap.Error(err))
	}
	return nil, nil
}
