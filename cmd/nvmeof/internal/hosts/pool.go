package hosts

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Pool is the set of hosts of a process that holds controllers: one for each local address, since a RoCE endpoint is
// one address.
type Pool struct {
	Warn io.Writer

	mu  sync.Mutex // guards the fields below
	all []*openHost
}

type openHost struct {
	provider string
	source   netip.Addr // source address of the route
	asked    bool       // configured by --host-traddr
	shares   bool       // sharesLoopback of the target for which it was opened
	addr     netip.Addr // of the device
	device   rdmatransport.Device
	host     *host.Host
}

// Reach returns the host from which a target can be reached, and opens it if necessary.
func (h *Pool) Reach(c *fabricoptions.Connection, target netip.Addr) (*host.Host, error) {
	source, err := c.Source(target)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		shared := !o.asked && c.HostTraddr == "" && o.shares && sharesLoopback(source, target) && o.addr.Is4() == target.Is4()
		if o.provider == c.Provider && o.addr != target && (o.source == source || o.addr == source || shared) {
			return o.host, nil
		}
	}
	identity, err := c.Identity()
	if err != nil {
		return nil, err
	}
	o, err := open(c, identity, target, len(h.all), h.Warn)
	if err != nil {
		return nil, err
	}
	o.source, o.asked, o.shares = source, c.HostTraddr != "", sharesLoopback(source, target)
	h.all = append(h.all, o)
	return o.host, nil
}

// open opens the device from which a target can be reached, and a host on it. others is the number of hosts that the
// process has already.
func open(c *fabricoptions.Connection, identity nvmeof.HostIdentity, target netip.Addr, others int, warn io.Writer) (*openHost, error) {
	shards, err := c.Shards()
	if err != nil {
		return nil, err
	}
	processors.Need(shards*(others+1), nvmeof.PollAdaptive)
	device, addr, err := c.OpenDevice(target, shards, warn)
	if err != nil {
		return nil, err
	}
	made, err := host.New(host.Config{Device: device, Identity: identity, Shards: shards})
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return &openHost{provider: c.Provider, addr: addr, device: device, host: made}, nil
}

// sharesLoopback reports whether all local targets of the target's kind are reached from a single loopback address.
// This is so for targets in 127/8, and for IPv6 targets of this machine, whose route has the target's own address as
// its source. A target with another local IPv4 address is reached from an address in 127/8 of its own.
func sharesLoopback(source, target netip.Addr) bool {
	return source.IsLoopback() || target.Is6() && source == target
}

// Addresses returns the addresses at which this process is the RoCE endpoint.
func (h *Pool) Addresses() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		all = append(all, o.addr.String())
	}
	return all
}

// Devices returns the devices of the process.
func (h *Pool) Devices() (all []rdmatransport.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.all {
		all = append(all, o.device)
	}
	return all
}

// Close closes the hosts and their devices.
func (h *Pool) Close() error {
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

// Path returns the path of a connection, for a holder.
func (h *Pool) Path(c *fabricoptions.Held) (connections.Path, error) {
	_, identity, err := c.Wanted()
	if err != nil {
		return connections.Path{}, err
	}
	addr, err := c.Addr()
	if err != nil {
		return connections.Path{}, err
	}
	o, err := c.HostOptions(addr, c.NQN)
	if err != nil {
		return connections.Path{}, err
	}
	at, err := h.Reach(&c.Connection, addr.Addr())
	if err != nil {
		return connections.Path{}, err
	}
	o.HostNQN, o.HostID = identity.NQN, identity.ID
	return connections.Path{Host: at, Options: o, Keys: c.Keys(&o), Timers: c.Timers(), Policy: c.Policy, HostTraddr: c.HostTraddr}, nil
}

// Paths returns the paths to all addresses of --traddr, all with the same host identity.
func (h *Pool) Paths(c *fabricoptions.Held) (paths []connections.Path, err error) {
	for _, one := range c.Each() {
		path, err := h.Path(one)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
