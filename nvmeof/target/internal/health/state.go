package health

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// SpareThreshold is the percentage of free space below which hosts are warned.
const SpareThreshold = 10

// A State is the state of a store at its last examination.
type State struct {
	// Spare is the free space of the store's file system, in percent of what the store may still allocate. A
	// preallocated store allocates nothing.
	Spare  uint8
	Drive  backend.Health // zero if there is no drive
	Failed bool           // the store no longer accepts writes
	Lost   string         // why writes will be lost, and the remedy; empty: they will not
	Cut    string         // why the size is wrong, with data beyond it lost; empty: it is right
}

// Sound returns the state of a store that has not been examined yet.
func Sound() *State { return &State{Spare: 100} }

// Warnings returns the bits of Critical Warning for the state.
func (s *State) Warnings() uint8 {
	w := uint8(s.Drive.Warning) // the same bits
	if s.Short() {
		w |= capsule.WarningSpare
	}
	if s.Lost != "" || s.Cut != "" {
		w |= capsule.WarningReliability
	}
	if s.Failed {
		w |= capsule.WarningReliability | capsule.WarningReadOnly
	}
	return w
}

// Short reports whether Spare is below SpareThreshold.
func (s *State) Short() bool { return s.Spare < SpareThreshold }

// Temperature returns the drive's temperature in kelvins, or [Unknown] if no drive reports one.
func (s *State) Temperature() uint16 {
	if s.Drive.Known&backend.HealthTemperature != 0 {
		return s.Drive.Temperature
	}
	return Unknown
}

// PercentLeft returns free in percent of need, at most 100; both are in bytes.
func PercentLeft(free, need int64) uint8 {
	switch {
	case need <= 0 || free >= need:
		return 100
	case free <= 0:
		return 0
	}
	return uint8(float64(free) * 100 / float64(need))
}
