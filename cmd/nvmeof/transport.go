package main

import (
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// What --transport of a target and --provider of a host take.
const (
	transportSoftroce = "softroce"
	transportVerbs    = "verbs"
	transportAuto     = "auto"

	transportHelp = "softroce (UDP sockets), verbs (an RDMA device), or auto (verbs where the address belongs to an RDMA device)"
)

func isTransport(s string) bool {
	return s == transportSoftroce || s == transportVerbs || s == transportAuto
}

// providerConfig is what both roles say of a device. A zero field takes the provider's default.
type providerConfig struct {
	shards       int
	ackTimeout   time.Duration
	rcvbuf       int               // softroce: bytes of each receive socket's buffer
	congestion   config.Congestion // softroce
	looseWindows bool              // verbs: also windows that are not sound
	warn         func(string)      // is told of what makes the device slow
}

const ackTimeoutHelp = "how long to wait for the peer's acknowledgement before the wait counts as a retry (default 500ms; with verbs less where the RDMA CM says so)"

// openProvider opens a device of one of the two providers.
func openProvider(name string, addr netip.Addr, cfg providerConfig) (rdmatransport.Device, error) {
	if name == transportVerbs {
		if cfg.congestion != (config.Congestion{}) && cfg.warn != nil {
			cfg.warn("the RDMA device at " + addr.String() + " has a congestion control of its own: what was asked for is for softroce alone")
		}
		return verbs.Open(verbs.Config{Addr: addr, Shards: cfg.shards, AckTimeout: cfg.ackTimeout, LooseWindows: cfg.looseWindows})
	}
	dev, err := softroce.Open(softroce.Config{Addr: addr, Shards: cfg.shards, AckTimeout: cfg.ackTimeout, ReceiveBuffer: cfg.rcvbuf,
		NoECN: cfg.congestion.NoECN, Congestion: rateConfig(&cfg.congestion)})
	if err != nil {
		return nil, err
	}
	for _, w := range dev.Warnings() {
		cfg.warn(w)
	}
	return dev, nil
}

// rateConfig has the parameters as softroce takes them.
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

// congestion is a flag with parameters of softroce's congestion control.
type congestion config.Congestion

func (c *congestion) Set(s string) error {
	v, err := config.ParseCongestion(s)
	*c = congestion(v)
	return err
}

// String is as [congestion.Set] takes it.
func (c *congestion) String() string { return config.Congestion(*c).String() }

func (*congestion) Type() string { return "FIELD=VALUE,..." }

const congestionHelp = "softroce's congestion control, with the fields of a target's file (nvmeof target schema): no-ecn, ignore, min-rate=10Mbit, cnp-interval=50us, gain=1/256, ..."

// chooseTransport prefers an RDMA device where the address belongs to one.
func chooseTransport(addr netip.Addr) (name, why string) {
	owner, err := verbs.Owner(addr)
	if err != nil {
		return transportSoftroce, err.Error()
	}
	return transportVerbs, addr.String() + " belongs to the RDMA device " + owner
}

// logCounters logs what a device counted, where it counts.
func logCounters(dev rdmatransport.Device, log *zap.Logger) {
	if d, ok := dev.(*softroce.Device); ok {
		log.Info("counters", zap.Any("shards", d.Stats()))
	}
}
