package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An erasure is the removal of what one namespace exported, under way.
type erasure struct {
	of    *config.Erasing
	left  int           // what goes on of it: the calls that remove it, of which one may hang, and the one that notes it; guarded by Manager.mu
	ended chan struct{} // closed when none is left
}

// beginErasure begins one, unless another gateway serves the ANA group by now, or has erased it before, so that something
// else may have the name. Whoever gives the group back waits for its end: two gateways erase nothing at the same time.
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

// enter is called before a part of it begins that may go on for longer. Without an erasure nobody waits for that.
func (x *erasure) enter(m *Manager) {
	if x != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		x.left++
	}
}

// leave is called when such a part has ended, and when what came of all is noted.
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

// awaitErasures waits until nothing is erased here of a group that the target does not serve any more.
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
			return fmt.Errorf("ANA group %d is given back, and %s is being erased: %w", group, exportName(x.of.Namespace), ctx.Err())
		}
	}
	return nil
}
