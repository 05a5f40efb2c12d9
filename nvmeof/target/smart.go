package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// smartLog is the SMART / Health Information page (NVMe base 2.0, 5.16.1.3).
func (c *Controller) smartLog(list []*Namespace) []byte {
	s := c.smart(list)
	b := make([]byte, capsule.SMARTLogSize)
	s.Encode(b)
	return b
}

// smart sums what hosts did and takes the worst of what drives say. Commands and
// data are those of all hosts of the subsystem, not what drives count: they may
// have other users.
func (c *Controller) smart(list []*Namespace) capsule.SMARTLog {
	var n counts
	drive := backend.Health{
		PowerCycles: 1, PowerOnHours: uint64(time.Since(c.target.started) / time.Hour),
		UnsafeShutdowns: c.subsystem.unsafe.Load(),
	}
	s := capsule.SMARTLog{
		CriticalWarning: c.warnings(list), AvailableSpare: 100, SpareThreshold: spareThreshold,
	}
	for _, ns := range list {
		n.add(ns)
		h := ns.health.Load()
		s.AvailableSpare = min(s.AvailableSpare, h.spare)
		if h.drive.Known&backend.HealthSpare != 0 {
			s.AvailableSpare = min(s.AvailableSpare, h.drive.Spare)
		}
		s.Temperature = max(s.Temperature, h.temperature())
		drive = worst(drive, h.drive)
	}
	if len(list) == 0 {
		s.Temperature = coolTemperature
	}
	s.PercentageUsed = drive.Used
	s.DataUnitsRead = count128(dataUnits(n.readBytes))
	s.DataUnitsWritten = count128(dataUnits(n.writeBytes))
	s.HostReads, s.HostWrites = count128(n.reads), count128(n.writes)
	s.BusyTime = count128(uint64(n.busy / time.Minute))
	s.PowerCycles, s.PowerOnHours = count128(drive.PowerCycles), count128(drive.PowerOnHours)
	s.UnsafeShutdowns = count128(drive.UnsafeShutdowns)
	s.MediaErrors = count128(max(drive.MediaErrors, n.mediaErrors))
	s.ErrorLogEntries = count128(c.errors.total())
	return s
}

// worst takes the larger of each wear. What a drive does not tell is zero.
func worst(a, b backend.Health) backend.Health {
	a.Used = max(a.Used, b.Used)
	a.PowerCycles = max(a.PowerCycles, b.PowerCycles)
	a.PowerOnHours = max(a.PowerOnHours, b.PowerOnHours)
	a.UnsafeShutdowns = max(a.UnsafeShutdowns, b.UnsafeShutdowns)
	a.MediaErrors = max(a.MediaErrors, b.MediaErrors)
	return a
}

func count128(n uint64) capsule.Uint128 { return capsule.Uint128{Lo: n} }

// dataUnits converts bytes to thousands of 512 byte units, rounded up.
func dataUnits(bytes uint64) uint64 { return (bytes + 512000 - 1) / 512000 }
