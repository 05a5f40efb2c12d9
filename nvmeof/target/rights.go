package target

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// withhold freezes the rights of a host that may be about to lose its permission: it gets none for further
// namespaces, and loses those to the namespaces in but.
func (c *Controller) withhold(but ...capsule.NSID) {
	before := c.view.Rights.Load()
	named := map[capsule.NSID]Access{}
	for ns := range c.view.Table.Load().Listed {
		named[ns.ID] = before.To(ns.ID)
	}
	for _, id := range but {
		named[id] = AccessNone
	}
	c.view.Rights.Store(access.NewRights(AccessNone, named))
}

// grant changes the host's rights and raises the events for namespaces that change.
func (c *Controller) grant(now *access.Rights) {
	before := c.view.Rights.Swap(now)
	c.protested.Store(false)
	var ids []capsule.NSID
	for ns := range c.view.Table.Load().Listed {
		if before.To(ns.ID) != now.To(ns.ID) {
			ids = append(ids, ns.ID)
			c.subsystem.regrouped(ns.Shown())
		}
	}
	if len(ids) > 0 {
		c.do(func() {
			for _, id := range ids {
				c.changed.Add(id)
			}
			c.raise(capsule.EventNamespaceAttribute)
		})
	}
}

// mayWrite returns the remedy for a host that may only read a namespace.
func mayWrite(c *Controller, ns *storage.Namespace) string {
	return fmt.Sprintf("nvmeof host set %s -n %s --access write, or --namespace %d=write", word(c.hostNQN), word(c.subsystem.nqn), uint32(ns.ID))
}

// refusedWrite logs why a Write of the host fails, once.
func (c *Controller) refusedWrite(ns *storage.Namespace) {
	if c.protested.Load() || c.protested.Swap(true) {
		return
	}
	reason, remedy := "host may only read the namespace", mayWrite(c, ns)
	switch {
	case ns.Volume.Info.ReadOnly:
		reason, remedy = "store is read-only", "export the file, device or image without read-only"
	case ns.ReadOnly():
		reason, remedy = "namespace is read-only", fmt.Sprintf("nvmeof namespace set %d -n %s --read-only=false", uint32(ns.ID), word(c.subsystem.nqn))
	case ns.Protection() == capsule.WriteProtectedUntilOff:
		reason, remedy = "a host write-protected the namespace until power cycle", "restart the target"
	case ns.Protection() != capsule.WriteProtectNone:
		reason, remedy = "a host write-protected the namespace", "run nvme set-feature -f 0x84 -v 0 on a host that may write"
	}
	recordEvent(c.target, events.Refused, events.Warning, events.Event{Subsystem: string(c.subsystem.nqn), NSID: int(ns.ID), Host: string(c.hostNQN),
		Address: c.admin.remote.String(), Text: because("write refused: "+reason, remedy)})
	c.target.log.Trouble("write refused", zap.String("host", string(c.hostNQN)), zap.String("subsystem", string(c.subsystem.nqn)),
		zap.Uint32("nsid", uint32(ns.ID)), zap.String("reason", reason), zap.String("remedy", remedy))
}

// mayReserve reports whether the host may execute a command that changes a reservation: a host that may only read
// cannot reserve, but it can release and unregister.
func (c *Controller) mayReserve(ns *storage.Namespace, cmd *reservation.Command) bool {
	if c.view.Rights.Load().To(ns.ID) == AccessWrite {
		return true
	}
	switch cmd.Opcode {
	case capsule.IOReservationRegister:
		return cmd.Fields.Action == capsule.UnregisterKey && cmd.Fields.Persist == capsule.PersistNoChange
	case capsule.IOReservationRelease:
		return cmd.Fields.Action != capsule.ClearReservation
	}
	return false
}
