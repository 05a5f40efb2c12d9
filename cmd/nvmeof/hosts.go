package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// hosts are those of a process that holds controllers: one for each address from
// which it reaches them, since a RoCE endpoint is one address.
type hosts struct {
	warn io.Writer

	mu  sync.Mutex // guards what follows
	all []*openHost
}

type openHost struct {
	provider string
	source   netip.Addr // from which the route goes
	asked    bool       // it was asked for by --host-traddr
	addr     netip.Addr // of the device
	device   rdmatransport.Device
	host     *host.Host
}

// reach is the host from which to reach a controller, opened at need.
func (h *hosts) reach(c *connection, target netip.Addr) (*openHost, error) {
	source, err := c.source(target)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		local := source.IsLoopback() && !o.asked && c.hostTraddr == "" && o.source.IsLoopback()
		if o.provider == c.provider && o.addr != target && (o.source == source || o.addr == source || local) {
			return o, nil
		}
	}
	identity, err := c.identity()
	if err != nil {
		return nil, err
	}
	shards := max(1, min(c.nrIOQueues, runtime.NumCPU(), maxShards))
	needProcessors(shards*(len(h.all)+1), nvmeof.PollAdaptive)
	device, addr, err := c.openDeviceAt(target, shards, h.warn)
	if err != nil {
		return nil, err
	}
	made, err := host.New(host.Config{Device: device, Identity: identity, Shards: shards})
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	o := &openHost{c.provider, source, c.hostTraddr != "", addr, device, made}
	h.all = append(h.all, o)
	return o, nil
}

// addresses are those of which this process is the RoCE endpoint.
func (h *hosts) addresses() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		all = append(all, o.addr.String())
	}
	return all
}

func (h *hosts) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, o := range h.all {
		if err := errors.Join(o.host.Close(), o.device.Close()); err != nil {
			errs = append(errs, fmt.Errorf("host at %v: %w", o.addr, err))
		}
	}
	h.all = nil
	return errors.Join(errs...)
}
