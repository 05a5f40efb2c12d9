package main

import (
	"cmp"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// An opener opens the devices of a target that follows a file. It belongs to whoever
// has the target's manager locked.
type opener struct {
	transport string
	provider  providerConfig
	polling   shard.Polling
	log       *zap.Logger
	device    func(transport string, addr netip.Addr, cfg providerConfig) (rdmatransport.Device, error)
	chosen    map[netip.Addr]string // transports; a device that is away for a while stays the choice
}

func newOpener(f *configFlags, doc *config.Document, log *zap.Logger) *opener {
	polling, _ := parsePolling(cmp.Or(string(doc.Limits.Polling), "auto")) // checked as it was read
	o := &opener{polling: polling, transport: string(doc.Transport), log: log, device: f.device, chosen: map[netip.Addr]string{},
		provider: providerConfig{
			shards: shardsOf(doc), ackTimeout: time.Duration(doc.Limits.AckTimeout), rcvbuf: int(doc.Limits.ReceiveBuffer),
			warn: func(w string) { log.Warn(w) },
		}}
	if o.device == nil {
		o.device = openProvider
	}
	return o
}

// choose says by which transport an address is served.
func (o *opener) choose(a netip.Addr) string {
	if name, known := o.chosen[a]; known {
		return name
	}
	name, why := o.transport, "the configuration says so"
	switch name {
	case "":
		name, why = transportSoftroce, "it is the default"
	case transportAuto:
		name, why = chooseTransport(a)
	}
	o.log.Info("transport", zap.String("name", name), zap.String("why", why), zap.Stringer("address", a))
	o.chosen[a] = name
	needProcessors(len(o.chosen)*o.provider.shards, o.polling)
	return name
}

// owner names the device of an address. One of softroce has one address.
func (o *opener) owner(a netip.Addr) string {
	if o.choose(a) == transportVerbs {
		if name, err := verbs.Owner(a); err == nil {
			return name
		}
	}
	return a.String()
}

func (o *opener) open(a netip.Addr) (rdmatransport.Device, error) {
	return o.device(o.choose(a), a, o.provider)
}

// closing is told of a device that is about to be closed.
func (o *opener) closing(dev rdmatransport.Device) { logCounters(dev, o.log) }
