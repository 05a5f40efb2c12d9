package target

import (
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

// smartLog returns the SMART / Health Information page (NVMe base 2.0, 5.16.1.3).
func (c *Controller) smartLog(list []*storage.Namespace) []byte {
	s := c.smart(list)
	b := make([]byte, capsule.SMARTLogSize)
	s.Encode(b)
	return b
}

// smart returns the page for some namespaces. Its counters of commands and data cover all hosts of the subsystem.
func (c *Controller) smart(list []*storage.Namespace) capsule.SMARTLog {
	l := &c.subsystem.life
	var n health.Counts
	var stores []*health.State
	for _, ns := range list {
		ns.AddTo(&n)
		stores = append(stores, ns.Volume.Health.Load())
	}
	s := health.Log(backend.Health{
		PowerCycles: l.begun.Load().cycles, PowerOnHours: uint64(l.on() / time.Hour),
		UnsafeShutdowns: c.subsystem.unsafe.Load(),
	}, stores, &n)
	s.CriticalWarning = c.warnings(list)
	s.ErrorLogEntries = capsule.Uint128{Lo: c.subsystem.errors.Load()}
	return s
}

// knowHealth records the health when the host enables the controller, so that it is not reported by an event.
// Linux resets the controller after EventFailure, which would otherwise be raised again after each reset.
func knowHealth(c *Controller) {
	list := slices.Collect(c.view.All)
	c.warned, c.failures = c.warnings(list), failures(list)
}

// checkHealth reports new warnings. A warning that has ended is reported again when it returns.
func (c *Controller) checkHealth() {
	if !c.props.Accepting() {
		return
	}
	warned, failed := c.warned, c.failures
	knowHealth(c)
	if c.failures > failed {
		c.raise(state.EventFailure) // Linux resets the controller after this event, so it is only raised for failures
	}
	if fresh := c.warned &^ warned; fresh != 0 {
		c.raise(uint32(fresh))
	}
}

// remind raises the events for existing warnings which the host has just enabled (NVMe base 2.0, 5.27.1.8: "If the
// condition for an event is true when the corresponding notice is enabled, then an event is sent to the host").
func remind(c *Controller, enabled uint8) {
	now := c.warnings(slices.Collect(c.view.All)) & enabled
	c.warned |= now
	c.events.Raise(uint32(now))
}

// failures returns how many namespaces no longer accept writes.
func failures(list []*storage.Namespace) (n int) {
	for _, ns := range list {
		if ns.Volume.Health.Load().Warnings()&capsule.WarningReadOnly != 0 {
			n++
		}
	}
	return n
}

// warnings returns Critical Warning for some namespaces: the warnings of their stores, and those of the thresholds
// that this host has set.
func (c *Controller) warnings(list []*storage.Namespace) (w uint8) {
	for _, ns := range list {
		h := ns.Volume.Health.Load()
		w |= h.Warnings()
		if c.features.limits.Exceeded(h.Temperature()) {
			w |= capsule.WarningTemperature
		}
	}
	return w
}
