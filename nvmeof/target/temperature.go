package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

func getTemperatureLimit(c *Controller, r *request, v uint32) capsule.Status {
	limits := c.features.limits
	if preset(r) {
		limits = health.DefaultLimits()
	}
	limit := limits.Pick(capsule.ParseTemperatureThreshold(v), false)
	if limit == nil {
		return r.invalid(11, 0)
	}
	r.result = uint64(*limit)
	return capsule.StatusSuccess
}

func setTemperatureLimit(c *Controller, r *request, v uint32) capsule.Status {
	f := capsule.ParseTemperatureThreshold(v)
	limit := c.features.limits.Pick(f, true)
	if limit == nil {
		return r.invalid(11, 0)
	}
	*limit = f.Kelvins
	r.chargeAll(healthCost)
	c.checkHealth()
	return capsule.StatusSuccess
}
