package health

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// SpareThreshold is the percentage of room left below which hosts are warned.
const SpareThreshold = 10

// A State is the state of a store when it was last examined.
type State struct {
	// Spare is how much of what the store may still allocate its file system has left, in
	// percent. A preallocated store allocates nothing.
	Spare  uint8
	Drive  backend.Health // zero if there is no drive
	Failed bool           // the store accepts no writes any more
	Lost   string         // why what is written will be lost, and the remedy; empty: it will not
	Cut    string         // why the size is wrong, with data lost beyond it; empty: it is not
}

// Sound is the state of a store that has not been examined.
func Sound() *State { return &State{Spare: 100} }

// Warnings are the bits of Critical Warning that the state sets.
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

// Short reports whether the room left is below SpareThreshold.
func (s *State) Short() bool { return s.Spare < SpareThreshold }

// Temperature is the drive's in kelvins, or [Unknown] if no drive reports one.
func (s *State) Temperature() uint16 {
	if s.Drive.Known&backend.HealthTemperature != 0 {
		return s.Drive.Temperature
	}
	return Unknown
}

// PercentLeft is how much of need is free, both in bytes.
func PercentLeft(free, need int64) uint8 {
	switch {
	case need <= 0 || free >= need:
		return 100
	case free <= 0:
		return 0
	}
	return uint8(float64(free) * 100 / float64(need))
}
