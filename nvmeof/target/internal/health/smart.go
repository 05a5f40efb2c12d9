package health

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// Counts has the counters of hosts' commands and data.
type Counts struct {
	Reads, Writes         uint64 // commands
	ReadBytes, WriteBytes uint64
	MediaErrors           uint64
	Busy                  time.Duration
}

// Log returns the SMART page with the counters of hosts and the worst values of stores and drives. Commands and
// data are those of the hosts, not the counters of drives, which may have other users. self has values that do not
// depend on drives. The caller sets warnings and the number of errors.
func Log(self backend.Health, stores []*State, n *Counts) capsule.SMARTLog {
	l := capsule.SMARTLog{AvailableSpare: 100, SpareThreshold: SpareThreshold}
	drive := self
	for _, s := range stores {
		l.AvailableSpare = min(l.AvailableSpare, s.Spare)
		if s.Drive.Known&backend.HealthSpare != 0 {
			l.AvailableSpare = min(l.AvailableSpare, s.Drive.Spare)
		}
		l.Temperature = max(l.Temperature, s.Temperature())
		drive = worst(drive, s.Drive)
	}
	l.PercentageUsed = drive.Used
	l.DataUnitsRead = count128(dataUnits(n.ReadBytes))
	l.DataUnitsWritten = count128(dataUnits(n.WriteBytes))
	l.HostReads, l.HostWrites = count128(n.Reads), count128(n.Writes)
	l.BusyTime = count128(uint64(n.Busy / time.Minute))
	l.PowerCycles, l.PowerOnHours = count128(drive.PowerCycles), count128(drive.PowerOnHours)
	l.UnsafeShutdowns = count128(drive.UnsafeShutdowns)
	l.MediaErrors = count128(max(drive.MediaErrors, n.MediaErrors))
	return l
}

// worst returns the larger of each wear value. A drive reports zero for values that it does not know.
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
