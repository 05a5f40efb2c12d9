package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An erasure is the removal of what a namespace exported, in progress.
type erasure struct {
	of    *config.Erasing
	left  int           // parts in progress: removals, which may hang, and the update of the document; guarded by Manager.mu
	ended chan struct{} // closed when left is 0
}

// beginErasure begins an erasure. It returns nil if another gateway serves the ANA group by now, or has already
// erased the namespace, so that its name may be in use again. A gateway that gives the group back waits for the
// end: two gateways never erase at the same time.
func beginErasure(m *Manager, e *config.Erasing, revision int64) *erasure {
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := slices.ContainsFunc(m.shared.Erasing, func(x *config.Erasing) bool { return sameErased(x, e) })
	if !listed || m.revision != revision || isForeign(m, e.Namespace) {
		return nil
	}
	x := &erasure{of: e, left: 1, ended: make(chan struct{})}
	m.erasures[x] = struct{}{}
	return x
}

// enter is called before a part begins that may take long. x may be nil.
func (x *erasure) enter(m *Manager) {
	if x != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		x.left++
	}
}

// leave is called when such a part has ended, and when the result is stored.
func (x *erasure) leave(m *Manager) {
	if x == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.left--; x.left == 0 {
		delete(m.erasures, x)
		close(x.ended)
	}
}

// awaitErasures waits for the erasures of an ANA group that the target no longer serves.
func awaitErasures(ctx context.Context, m *Manager, group capsule.ANAGroup) error {
	var all []*erasure
	m.mu.Lock()
	for x := range m.erasures {
		if groupOf(x.of.Namespace) == group {
			all = append(all, x)
		}
	}
	m.mu.Unlock()
	for _, x := range all {
		select {
		case <-x.ended:
		case <-ctx.Done():
			return fmt.Errorf("ANA group %d is released, but %s is still being erased: %w", group, exportName(x.of.Namespace), ctx.Err())
		}
	}
	return nil
}
