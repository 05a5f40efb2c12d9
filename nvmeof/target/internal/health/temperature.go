package health

import "github.com/nvmeof-go/nvmeof/capsule"

// Temperatures in kelvins.
const (
	Unknown  = 0        // not reported: software has no temperature
	Warning  = 273 + 80 // WCTEMP
	Critical = 273 + 90 // CCTEMP
)

// Limits has the thresholds of the composite temperature, the only sensor. Reaching one is a critical warning
// (NVMe base 2.0, 5.27.1.3).
type Limits struct{ over, under uint16 }

// DefaultLimits warns at WCTEMP, as the specification requires if that is reported.
func DefaultLimits() Limits { return Limits{over: Warning} }

// Exceeded reports whether a temperature has reached a threshold.
func (l Limits) Exceeded(t uint16) bool { return t != Unknown && (t >= l.over || t <= l.under) }

// Pick returns the threshold that the feature value f selects, to be set or read, or nil if f is invalid.
func (l *Limits) Pick(f capsule.TemperatureThreshold, set bool) *uint16 {
	switch {
	case f.Invalid, f.Sensor != 0 && !(set && f.Sensor == capsule.AllSensors):
		return nil
	case f.Under:
		return &l.under
	}
	return &l.over
}

// MovedLimits is [Limits] on its way to another process.
type MovedLimits struct{ Over, Under uint16 }

// Export returns the limits for another process.
func (l Limits) Export() MovedLimits { return MovedLimits{l.over, l.under} }

// Restore returns the limits of the other process.
func (m MovedLimits) Restore() Limits { return Limits{m.Over, m.Under} }
