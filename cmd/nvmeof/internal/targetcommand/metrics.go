package targetcommand

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// collectors returns the collectors of the target's metrics.
func (d *Daemon) collectors(t *target.Target, m *control.Manager, o *opener) []prometheus.Collector {
	requests := func(yield func(metrics.ControlRequest, uint64) bool) {
		for r, n := range control.Requests(m) {
			if !yield(metrics.ControlRequest(r), n) {
				return
			}
		}
	}
	all := []prometheus.Collector{
		metrics.NewTarget(metrics.TargetConfig{
			Target: t, Version: d.version, Devices: o.devices, Hosts: d.Document.Metrics.Hosts, Control: requests, Log: &d.lines,
		}),
		metrics.NewSoftroce(o.devices),
	}
	if d.gateway != nil {
		all = append(all, metrics.NewGateway(d.gateway.Stats))
	}
	return all
}
