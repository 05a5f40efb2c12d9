package targetcommand

import (
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// httpAddressFlag is a flag with an address and a port.
type httpAddressFlag config.HTTPAddress

func (a *httpAddressFlag) Set(s string) error {
	return (*config.HTTPAddress)(a).UnmarshalText([]byte(s))
}
func (*httpAddressFlag) Type() string { return "ADDR:PORT" }
func (a *httpAddressFlag) String() string {
	if !a.IsValid() {
		return ""
	}
	return a.AddrPort.String()
}

// listenMetrics takes the address before anything is begun, and before the sandbox. It is nil where
// there is none.
func listenMetrics(at config.HTTPAddress) (net.Listener, error) {
	if !at.IsValid() {
		return nil, nil
	}
	return metrics.Listen(at.String())
}

// collectors are what the metrics are made of.
func (d *Daemon) collectors(t *target.Target, o *opener) []prometheus.Collector {
	return []prometheus.Collector{
		metrics.NewTarget(metrics.TargetConfig{Target: t, Version: d.version, Devices: o.devices}),
		metrics.NewSoftroce(o.devices),
	}
}
