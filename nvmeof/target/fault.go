package target

import (
	"fmt"
	"time"

	"go.uber.org/zap"
)

// ClearFault lets a namespace take writes again whose store has taken none since it
// could not keep a promise. It is an administrator's decision, after what is below was
// mended and the content checked: see [backend.Latcher]. One whose store was cut off, and has
// not failed, is from then on meant to be as small. It fails where the store has neither
// failed nor was cut off, or cannot be cleared. Hosts find the warning gone.
func (n *Namespace) ClearFault() error {
	if err := n.ns.Volume.ClearFault(); err != nil {
		return fmt.Errorf("namespace %d of %s: %w", n.ns.ID, n.subsystem.nqn, err)
	}
	n.subsystem.target.log.Info("fault of a namespace is cleared", zap.Uint32("nsid", uint32(n.ns.ID)),
		zap.String("subsystem", n.subsystem.nqn), zap.String("export", n.ns.Volume.Name))
	n.subsystem.target.examine(n.ns.Volume, time.Now())
	return nil
}
