package targetcommand

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// collectors are what the metrics are made of.
func (d *Daemon) collectors(t *target.Target, o *opener) []prometheus.Collector {
	return []prometheus.Collector{
		metrics.NewTarget(metrics.TargetConfig{Target: t, Version: d.version, Devices: o.devices}),
		metrics.NewSoftroce(o.devices),
	}
}
