package target

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"time"

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
