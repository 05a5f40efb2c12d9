package target

import (
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// ClearFault makes a namespace accept writes again after its store has failed. This is an administrator's
// decision, after the storage was repaired and its content checked: see [backend.Latcher]. If the store has not
// failed but became shorter, its current size is accepted. Hosts then no longer see the warning. If the store has
// neither failed nor become shorter, or its failure cannot be cleared, the error is a [StateError].
func (n *Namespace) ClearFault() error {
	if err := n.ns.Volume.ClearFault(); err != nil {
		return n.unfit(err)
	}
	n.subsystem.target.log.Info("fault of a namespace is cleared", zap.Uint32("nsid", uint32(n.ns.ID)),
		zap.String("subsystem", string(n.subsystem.nqn)), zap.String("export", n.ns.Volume.Name))
	n.recordEvent(events.Store, events.Info, "fault of "+n.ns.Volume.Name+" is cleared")
	n.subsystem.target.examine(n.ns.Volume, time.Now())
	return nil
}
