package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/loopback"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// openDevice opens the RDMA device from which to reach a target: with verbs that of
// the route, with softroce a RoCEv2 endpoint. Each endpoint is one address, so that a
// host on the target's machine needs another one: it takes a free one of 127/8.
func (c *connection) openDevice(target netip.Addr, shards int, say io.Writer) (rdmatransport.Device, error) {
	d, _, err := c.openDeviceAt(target, shards, say)
	return d, err
}

// openDeviceAt is openDevice, and says what the device's address is.
func (c *connection) openDeviceAt(target netip.Addr, shards int, say io.Writer) (_ rdmatransport.Device, at netip.Addr, err error) {
	source, err := c.source(target)
	if err != nil {
		return nil, at, err
	}
	provider := c.provider
	if provider == transportAuto {
		var why string
		provider, why = chooseTransport(source)
		fmt.Fprintf(say, "transport %s: %s\n", provider, why)
	}
	open := func(a netip.Addr) (rdmatransport.Device, error) {
		at = a
		dev, err := openProvider(provider, a, providerConfig{
			shards: shards, ackTimeout: c.ackTimeout, rcvbuf: c.rcvbuf, congestion: c.congestion, looseWindows: c.windows == windowsOn,
			warn: func(w string) {
				if c.measures || c.rcvbuf != 0 || c.congestion != (config.Congestion{}) {
					fmt.Fprintln(say, "warning:", w)
				}
			},
		})
		if err == nil && c.windows == windowsOn && !dev.Attrs().Windows {
			err = errors.Join(fmt.Errorf("--windows on: %s has no memory windows: without that, controllers get long-lived keys", dev.Attrs().Name), dev.Close())
		}
		return dev, err
	}
	var dev rdmatransport.Device
	switch {
	case provider == transportVerbs, c.hostTraddr != "", source != target && !source.IsLoopback():
		dev, err = open(source)
	case target.Is6():
		return nil, at, failure.Usagef("%v is an address of this machine, and a host needs another one: give one as --host-traddr", target)
	default:
		dev, err = loopback.Open(target, open)
	}
	return dev, at, err
}

// source is the address of this host, as asked for or as the route to a target has it.
func (c *connection) source(target netip.Addr) (netip.Addr, error) {
	if c.hostTraddr != "" {
		a, err := nvmeof.ParseAddress(c.hostTraddr, "")
		if err != nil {
			return netip.Addr{}, failure.Usagef("--host-traddr: %v", err)
		}
		return a.Addr(), nil
	}
	source, err := routeSource(target)
	if err != nil {
		return source, &failure.Connect{Err: &noRouteError{target, err}}
	}
	return source, nil
}

// A noRouteError says that nothing leads to a target now. An interface that comes up may
// bring the route.
type noRouteError struct {
	to  netip.Addr
	err error
}

func (e *noRouteError) Error() string { return fmt.Sprintf("no route to %v: %v", e.to, e.err) }

func (e *noRouteError) Unwrap() error { return e.err }

func isNoRoute(err error) bool { return errors.As(err, new(*noRouteError)) }

// routeSource is the address from which this machine reaches another.
func routeSource(to netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, nvmeof.DefaultPort))) // sends nothing
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	addr, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}, fmt.Errorf("local address %v", c.LocalAddr())
	}
	return addr.AddrPort().Addr().Unmap(), nil
}
