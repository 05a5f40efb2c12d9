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

// smartLog is the SMART / Health Information page (NVMe base 2.0, 5.16.1.3).
func (c *Controller) smartLog(list []*storage.Namespace) []byte {
	s := c.smart(list)
	b := make([]byte, capsule.SMARTLogSize)
	s.Encode(b)
	return b
}

// smart is the page of some namespaces. Commands and data are those of all hosts of the
// subsystem.
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

// checkHealth reports new warnings. One that has ended is reported again when it returns.
func (c *Controller) checkHealth() {
	now := c.warnings(slices.Collect(c.view.All))
	fresh := now &^ c.warned
	c.warned = now
	if fresh&capsule.WarningReadOnly != 0 {
		c.raise(state.EventFailure) // Linux resets the controller upon it: not for what still works
	}
	if fresh != 0 {
		c.raise(uint32(fresh))
	}
}

// warnings is Critical Warning for some namespaces: that of their stores, and of the
// thresholds that this host has set.
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
