package targetcommand

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// An opener opens the devices of a target. One that hangs does so beside others.
type opener struct {
	transport string
	provider  provider.Config
	polling   nvmeof.Polling
	log       *zap.Logger
	device    func(transport string, addr netip.Addr, cfg provider.Config) (rdmatransport.Device, error)
	confined  func() bool // files are, with which no device of verbs works

	mu     sync.Mutex                       // guards what follows
	chosen map[located]string               // transports; a device that is away for a while stays the choice
	opened map[located]rdmatransport.Device // those that were opened last, until they are about to be closed
	moved  []target.MovedDevice             // of the process that was taken over; each is opened once
}

// located is where a listener is, and the transport that it wants; empty: the document's.
type located struct {
	netip.Addr
	config.Transport
}

func newOpener(device func(string, netip.Addr, provider.Config) (rdmatransport.Device, error), doc *config.Document, log *zap.Logger, confined func() bool) *opener {
	polling, _ := processors.ParsePolling(cmp.Or(string(doc.Limits.Polling), "auto")) // checked as it was read
	o := &opener{polling: polling, transport: string(doc.Transport), log: log, device: device, confined: confined, chosen: map[located]string{}, opened: map[located]rdmatransport.Device{},
		provider: provider.Config{
			Shards: shardsOf(doc), AckTimeout: time.Duration(doc.Limits.AckTimeout), ReceiveBuffer: int(doc.Limits.ReceiveBuffer), Congestion: doc.Congestion,
			Warn: func(w string) { log.Warn(w) },
		}}
	if o.device == nil {
		o.device = provider.Open
	}
	return o
}

// choose says by which transport a listener's address is served.
func (o *opener) choose(a netip.Addr, own config.Transport) string {
	at := located{a, own}
	o.mu.Lock()
	defer o.mu.Unlock()
	if name, known := o.chosen[at]; known {
		return name
	}
	name, why := cmp.Or(string(own), o.transport), "the configuration says so"
	switch name {
	case "":
		name, why = provider.Softroce, "it is the default"
	case provider.Auto:
		if name, why = provider.Choose(a); name == provider.Verbs && o.confined() {
			name, why = provider.Softroce, errRDMA.Error()
		}
	}
	o.log.Info("transport", zap.String("name", name), zap.String("why", why), zap.Stringer("address", a))
	o.chosen[at] = name
	processors.Need(len(o.chosen)*o.provider.Shards, o.polling)
	return name
}

// deviceName names the device of an address. One of softroce has one address, and is never that
// of verbs, whose device may be away.
func (o *opener) deviceName(a netip.Addr, own config.Transport) string {
	if o.choose(a, own) != provider.Verbs {
		return a.String()
	}
	name, err := verbs.DeviceName(a)
	if err != nil {
		return "the RDMA device of " + a.String()
	}
	return name
}

// serves reports whether an address of a wildcard can be had: with verbs, whether it belongs
// to an RDMA device.
func (o *opener) serves(a netip.Addr, own config.Transport) bool {
	if cmp.Or(string(own), o.transport) != provider.Verbs {
		return true
	}
	_, err := verbs.DeviceName(a)
	return err == nil
}

func (o *opener) open(a netip.Addr, own config.Transport) (rdmatransport.Device, error) {
	name := o.choose(a, own)
	if name == provider.Verbs && o.confined() {
		return nil, fmt.Errorf("the target's files are confined (sandbox), and %w: restart it with this listener, or give the listener transport softroce", errRDMA)
	}
	cfg := o.provider
	cfg.Moved = o.takeMoved(a.String())
	dev, err := o.device(name, a, cfg)
	if cfg.Moved != nil {
		err = errors.Join(err, cfg.Moved.Close())
	}
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.opened[located{a, own}] = dev
	}
	return dev, err
}

// takeMoved is the device of another process that is to be opened in place of a new one, or nil.
func (o *opener) takeMoved(name string) *rdmatransport.Moved {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.moved, func(d target.MovedDevice) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	m := o.moved[i].Moved
	o.moved = slices.Delete(slices.Clone(o.moved), i, i+1)
	return m
}

// forgetMoved gives up the devices of another process that nobody has opened.
func (o *opener) forgetMoved() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.moved {
		err = errors.Join(err, d.Moved.Close())
	}
	o.moved = nil
	return err
}

// devices are those that are open.
func (o *opener) devices() []rdmatransport.Device {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.opened))
}

// deviceMayCome reports whether an error is one of a device that is not there now.
func deviceMayCome(err error) bool {
	return errors.Is(err, rdmatransport.ErrDeviceLost) || errors.As(err, new(*verbs.NoDeviceError))
}

// closing is called with a device that is about to be closed.
func (o *opener) closing(dev rdmatransport.Device) {
	provider.LogCounters(dev, o.log)
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.opened, func(_ located, d rdmatransport.Device) bool { return d == dev })
}
