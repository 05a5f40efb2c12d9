package target

import (
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// ClearFault lets a namespace accept writes again whose store has failed. It is an
// administrator's decision, after the storage was repaired and the content checked: see
// [backend.Latcher]. If the store has not failed but became shorter, its present size is
// accepted as the right one. ClearFault fails where the store has neither failed nor
// become shorter, or cannot be cleared, with a [StateError]. The warning that hosts read ends.
func (n *Namespace) ClearFault() error {
	if err := n.ns.Volume.ClearFault(); err != nil {
		return n.unfit(err)
	}
	n.subsystem.target.log.Info("fault of a namespace is cleared", zap.Uint32("nsid", uint32(n.ns.ID)),
		zap.String("subsystem", string(n.subsystem.nqn)), zap.String("export", n.ns.Volume.Name))
	n.happened(events.Store, events.Info, "fault of "+n.ns.Volume.Name+" is cleared")
	n.subsystem.target.examine(n.ns.Volume, time.Now())
	return nil
}
