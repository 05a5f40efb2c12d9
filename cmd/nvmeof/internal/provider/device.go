package provider

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/loopback"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Options selects the RDMA device of a host.
type Options struct {
	Provider      string // softroce, verbs or auto
	Windows       string // auto, on or off
	HostTraddr    string
	AckTimeout    time.Duration
	ReceiveBuffer int
	Congestion    config.Congestion
	Measures      bool // always report what makes the device slow; otherwise only if it differs from the request
}

// Values of --windows.
const (
	WindowsAuto = "auto"
	WindowsOn   = "on"
	WindowsOff  = "off"
)

// OpenDevice opens the RDMA device from which a target can be reached. With verbs this is the device of the route;
// with softroce it is a new RoCEv2 endpoint. Each endpoint is one address, so a host on the target's machine needs
// another one: OpenDevice uses a free address of 127/8, or ::1. at is the device's address.
func (o *Options) OpenDevice(target netip.Addr, shards int, say io.Writer) (_ rdmatransport.Device, at netip.Addr, err error) {
	source, err := o.Source(target)
	if err != nil {
		return nil, at, err
	}
	provider := o.Provider
	if provider == Auto {
		var why string
		provider, why = Choose(source)
		fmt.Fprintf(say, "transport %s: %s\n", provider, why)
	}
	open := func(a netip.Addr) (rdmatransport.Device, error) {
		at = a
		dev, err := Open(provider, a, Config{
			Shards: shards, AckTimeout: o.AckTimeout, ReceiveBuffer: o.ReceiveBuffer, Congestion: o.Congestion, LooseWindows: o.Windows == WindowsOn,
			Warn: func(w string) {
				if o.Measures || o.ReceiveBuffer != 0 || o.Congestion != (config.Congestion{}) {
					fmt.Fprintln(say, "warning:", w)
				}
			},
		})
		if err == nil && o.Windows == WindowsOn && !dev.Attrs().Windows {
			err = errors.Join(fmt.Errorf("--windows on: %s has no memory windows; with auto, controllers get long-lived keys", dev.Attrs().Name), dev.Close())
		}
		return dev, err
	}
	var dev rdmatransport.Device
	switch {
	case provider == Verbs, o.HostTraddr != "", source != target && !source.IsLoopback():
		dev, err = open(source)
		if provider != Verbs && o.HostTraddr == "" && loopback.Has(target) && loopback.IsTaken(err) && isOurs(target) {
			dev, err = loopback.Open(target, open) // a target of this machine has both addresses
		}
	case !loopback.Has(target):
		return nil, at, failure.Usagef("%v is an address of this machine, and the host needs a different one: give it as --host-traddr", target)
	default:
		dev, err = loopback.Open(target, open)
	}
	return dev, at, err
}

// Source returns the address of this host: the configured one, or that of the route to a target.
func (o *Options) Source(target netip.Addr) (netip.Addr, error) {
	if o.HostTraddr != "" {
		a, err := nvmeof.ParseAddress(o.HostTraddr, "")
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

// A noRouteError is returned when there is no route to a target. An interface that comes up may bring one.
type noRouteError struct {
	to  netip.Addr
	err error
}

func (e *noRouteError) Error() string { return fmt.Sprintf("no route to %v: %v", e.to, e.err) }

func (e *noRouteError) Unwrap() error { return e.err }

// IsNoRoute reports whether an error says that there is no route to a target.
func IsNoRoute(err error) bool { return errors.As(err, new(*noRouteError)) }

// routeSource returns the source address of the route to an address.
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

// isOurs reports whether an address belongs to this machine: only those can be bound.
func isOurs(a netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// LacksZone reports whether an address needs a zone and has none.
func LacksZone(a netip.Addr) bool {
	return a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == ""
}

// MaxShards is the maximum number of shards of a device, for both providers.
const MaxShards = 64
