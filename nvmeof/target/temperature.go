package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// Temperatures in kelvins: software has none, so it reports a cool one.
const (
	coolTemperature     = 273 + 25
	warningTemperature  = 273 + 80
	criticalTemperature = 273 + 90
)

// temperature is the drive's, or nominal where there is none to ask.
func (h *health) temperature() uint16 {
	if h.drive.Known&backend.HealthTemperature != 0 {
		return h.drive.Temperature
	}
	return coolTemperature
}

// temperatureLimits are the thresholds of the composite temperature, the only
// sensor: reaching one is a critical warning (NVMe base 2.0, 5.27.1.3).
type temperatureLimits struct{ over, under uint16 }

// defaultLimits warn at WCTEMP, as the specification has it where that is given.
var defaultLimits = temperatureLimits{over: warningTemperature}

func (l temperatureLimits) exceeded(t uint16) bool { return t >= l.over || t <= l.under }

// pick is the threshold that a value of the feature selects, or nil.
func (l *temperatureLimits) pick(f capsule.TemperatureThreshold, set bool) *uint16 {
	switch {
	case f.Invalid, f.Sensor != 0 && !(set && f.Sensor == capsule.AllSensors):
		return nil
	case f.Under:
		return &l.under
	}
	return &l.over
}

func getTemperatureLimit(c *Controller, r *request, v uint32) capsule.Status {
	limits := c.features.limits
	if r.preset() {
		limits = defaultLimits
	}
	limit := limits.pick(capsule.ParseTemperatureThreshold(v), false)
	if limit == nil {
		return invalidField
	}
	r.result = uint64(*limit)
	return capsule.StatusSuccess
}

func setTemperatureLimit(c *Controller, _ *request, v uint32) capsule.Status {
	f := capsule.ParseTemperatureThreshold(v)
	limit := c.features.limits.pick(f, true)
	if limit == nil {
		return invalidField
	}
	*limit = f.Kelvins
	c.checkHealth()
	return capsule.StatusSuccess
}
