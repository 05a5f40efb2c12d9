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

// An opener opens the devices of a target. One that hangs does not delay the others.
type opener struct {
	transport string
	provider  provider.Config
	polling   nvmeof.Polling
	log       *zap.Logger
	device    func(transport string, addr netip.Addr, cfg provider.Config) (rdmatransport.Device, error)
	confined  func() bool // files are confined: then verbs devices do not work

	mu     sync.Mutex                       // guards the fields below
	chosen map[located]string               // transports; the choice remains while a device is absent
	opened map[located]rdmatransport.Device // opened devices, until they are about to be closed
	moved  []target.MovedDevice             // of the process that was taken over; each is opened once
}

// located is the address of a listener and its transport; empty: the document's.
type located struct {
	netip.Addr
	config.Transport
}

func newOpener(device func(string, netip.Addr, provider.Config) (rdmatransport.Device, error), doc *config.Document, log *zap.Logger, confined func() bool) *opener {
	polling, _ := processors.ParsePolling(cmp.Or(string(doc.Limits.Polling), "auto")) // validated when it was read
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

// choose returns the transport by which a listener's address is served.
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

// deviceName returns the name of an address's device. For softroce this is the address; for verbs it is the RDMA
// device, or a placeholder while that is absent.
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

// serves reports whether a wildcard listener can use an address: with verbs, whether it belongs to an RDMA device.
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

// takeMoved returns the device of another process that replaces a newly opened one, or nil.
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

// forgetMoved closes the remaining devices of another process, which no listener has opened.
func (o *opener) forgetMoved() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.moved {
		err = errors.Join(err, d.Moved.Close())
	}
	o.moved = nil
	return err
}

// devices returns the open devices.
func (o *opener) devices() []rdmatransport.Device {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.opened))
}

// deviceMayCome reports whether an error says that a device is absent at the moment.
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
