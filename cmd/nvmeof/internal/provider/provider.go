package provider

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// Values of a target's --transport and a host's --provider.
const (
	Softroce = "softroce"
	Verbs    = "verbs"
	Auto     = "auto"

	Help = "softroce (UDP sockets), verbs (an RDMA device), or auto (verbs if the address belongs to an RDMA device)"
)

// IsName reports whether s is a value of --provider.
func IsName(s string) bool {
	return s == Softroce || s == Verbs || s == Auto
}

// Config is the configuration of a device that targets and hosts have in common. A zero field takes the provider's
// default.
type Config struct {
	Shards        int
	AckTimeout    time.Duration
	ReceiveBuffer int                  // softroce: bytes of each receive socket's buffer
	Congestion    config.Congestion    // softroce
	LooseWindows  bool                 // verbs: also use windows that are not sound
	Warn          func(string)         // receives what makes the device slow
	Moved         *rdmatransport.Moved // softroce: the device of another process, to be continued; nil: a new one
}

// AckTimeoutHelp is the help text of --ack-timeout.
const AckTimeoutHelp = "time to wait for the peer's acknowledgement before it counts as a retry (default 500ms; with verbs less if the RDMA CM says so)"

// Open opens a device of one of the two providers.
func Open(name string, addr netip.Addr, cfg Config) (rdmatransport.Device, error) {
	if name == Verbs {
		if cfg.Congestion != (config.Congestion{}) && cfg.Warn != nil {
			cfg.Warn("the RDMA device at " + addr.String() + " has its own congestion control: the option is only for softroce")
		}
		return verbs.Open(verbs.Config{Addr: addr, Shards: cfg.Shards, AckTimeout: cfg.AckTimeout, LooseWindows: cfg.LooseWindows})
	}
	dev, err := softroce.Open(softroce.Config{Addr: addr, Shards: cfg.Shards, AckTimeout: cfg.AckTimeout, ReceiveBuffer: cfg.ReceiveBuffer, Moved: cfg.Moved,
		NoECN: cfg.Congestion.NoECN, Congestion: rateConfig(&cfg.Congestion)})
	if err != nil {
		return nil, err
	}
	for _, w := range dev.Warnings() {
		cfg.Warn(addr.String() + ": " + w) // a process has one device per address
	}
	return dev, nil
}

// rateConfig converts the parameters to those of softroce.
func rateConfig(c *config.Congestion) softroce.RateConfig {
	const bits = 8
	r := softroce.RateConfig{
		Ignore: c.Ignore, MinRate: softroce.Rate(c.MinRate) / bits, CNPInterval: time.Duration(c.CNPInterval), AlphaPeriod: time.Duration(c.AlphaPeriod),
		IncreasePeriod: time.Duration(c.IncreasePeriod), IncreaseBytes: int(c.IncreaseBytes), FastRounds: c.FastRounds, HyperRounds: c.HyperRounds,
		AdditiveStep: softroce.Rate(c.AdditiveStep) / bits, HyperStep: softroce.Rate(c.HyperStep) / bits,
	}
	if c.Gain > 0 {
		r.Gain = 1 / float64(c.Gain)
	}
	return r
}

// CongestionFlag is a flag with the parameters of softroce's congestion control.
type CongestionFlag config.Congestion

// Set implements pflag.Value.
func (c *CongestionFlag) Set(s string) error {
	v, err := config.ParseCongestion(s)
	*c = CongestionFlag(v)
	return err
}

// String returns the value in the form that [CongestionFlag.Set] takes.
func (c *CongestionFlag) String() string { return config.Congestion(*c).String() }

func (*CongestionFlag) Type() string { return "FIELD=VALUE,..." }

// CongestionHelp is the help text of --congestion.
const CongestionHelp = "congestion control of softroce, with the fields of a target's configuration (nvmeof target schema): no-ecn, ignore, min-rate=10Mbit, cnp-interval=50us, gain=1/256, ..."

// Choose selects verbs if the address belongs to an RDMA device, and softroce otherwise.
func Choose(addr netip.Addr) (name, why string) {
	name, err := verbs.DeviceName(addr)
	if err != nil {
		return Softroce, err.Error()
	}
	return Verbs, addr.String() + " belongs to the RDMA device " + name
}

// LogCounters logs the counters of a device, if it has any.
func LogCounters(dev rdmatransport.Device, log *zap.Logger) {
	if d, ok := dev.(*softroce.Device); ok {
		log.Info("counters", zap.Any("shards", d.Stats()))
	}
}
