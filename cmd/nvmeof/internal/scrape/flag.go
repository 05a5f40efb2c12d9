package scrape

import (
	"net"

	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
)

// Address is a flag with an address and a port.
type Address config.HTTPAddress

// Set implements [pflag.Value].
func (a *Address) Set(s string) error { return (*config.HTTPAddress)(a).UnmarshalText([]byte(s)) }

// Type implements [pflag.Value].
func (*Address) Type() string { return "ADDR:PORT" }

// String implements [pflag.Value].
func (a *Address) String() string {
	if !a.IsValid() {
		return ""
	}
	return a.AddrPort.String()
}

// AddTo adds the flag.
func (a *Address) AddTo(flags *pflag.FlagSet) {
	flags.Var(a, "metrics", "address and port of the metrics for Prometheus, as 127.0.0.1:9420; everyone who can connect can read them (default: none)")
}

// Listen opens the listener before anything else is started. It returns nil if there is no address.
func (a *Address) Listen() (net.Listener, error) {
	if !a.IsValid() {
		return nil, nil
	}
	return metrics.Listen(a.AddrPort.String())
}
