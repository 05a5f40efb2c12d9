package target

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
)

// ClearFault lets a namespace take writes again whose store has taken none since it
// could not keep a promise. It is an administrator's decision, after what is below was
// mended and the content checked: see [backend.Latcher]. It fails where the store has
// not failed, or cannot be cleared. Hosts find the warning gone.
func (n *Namespace) ClearFault() error {
	if err := n.clearFault(); err != nil {
		return fmt.Errorf("namespace %d of %s: %w", n.id, n.subsystem.nqn, err)
	}
	n.target.log.Info("namespace takes writes again", zap.Uint32("nsid", uint32(n.id)),
		zap.String("subsystem", n.subsystem.nqn), zap.String("export", n.name))
	n.examine(time.Now())
	return nil
}

// clearFault clears the store, which stays open as long as that takes; see volume.close.
func (v *volume) clearFault() error {
	v.asking.Lock()
	defer v.asking.Unlock()
	if v.closed {
		return fmt.Errorf("its store is closed: %w", backend.ErrClosed)
	}
	if !v.failed() {
		return fmt.Errorf("%s has not failed", v.name)
	}
	if l, ok := v.store.(backend.Latcher); ok {
		if err := l.Clear(); err != nil {
			return err
		}
	}
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil {
			l.failed.Store(false)
		}
	}
	return nil
}
