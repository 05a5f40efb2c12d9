package health

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// SpareThreshold is at how many percent of room left hosts are warned.
const SpareThreshold = 10

// A State is how a store was last found.
type State struct {
	// Spare is how much of what the store may still need its file system has
	// left: percent. One that is preallocated needs nothing.
	Spare  uint8
	Drive  backend.Health // nothing is known if there is no drive
	Failed bool           // the store takes no writes any more
	Lost   string         // why what is written is not found again, and what to do; empty: it is
	Cut    string         // what is wrong with its size, behind which something was lost; empty: nothing
}

// Sound is a store that nobody has looked at.
func Sound() *State { return &State{Spare: 100} }

// Warnings are the bits of Critical Warning that follow.
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

// Short reports whether room runs out.
func (s *State) Short() bool { return s.Spare < SpareThreshold }

// Temperature is the drive's in kelvins, or [Unknown] where there is none to ask.
func (s *State) Temperature() uint16 {
	if s.Drive.Known&backend.HealthTemperature != 0 {
		return s.Drive.Temperature
	}
	return Unknown
}

// PercentLeft is how much of need there is room for, both in bytes.
func PercentLeft(free, need int64) uint8 {
	switch {
	case need <= 0 || free >= need:
		return 100
	case free <= 0:
		return 0
	}
	return uint8(float64(free) * 100 / float64(need))
}
