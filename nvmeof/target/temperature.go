package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/command"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

func getTemperatureLimit(c *Controller, r *command.Request, v uint32) capsule.Status {
	limits := c.features.limits
	if preset(r) {
		limits = health.DefaultLimits()
	}
	limit := limits.Pick(capsule.ParseTemperatureThreshold(v), false)
	if limit == nil {
		return invalidField
	}
	r.Result = uint64(*limit)
	return capsule.StatusSuccess
}

func setTemperatureLimit(c *Controller, _ *command.Request, v uint32) capsule.Status {
	f := capsule.ParseTemperatureThreshold(v)
	limit := c.features.limits.Pick(f, true)
	if limit == nil {
		return invalidField
	}
	*limit = f.Kelvins
	c.checkHealth()
	return capsule.StatusSuccess
}
