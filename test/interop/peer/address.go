package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// addrOption is an option or argument that is an address.
func addrOption(to *netip.Addr) func(string) error {
	return func(s string) (err error) {
		*to, err = netip.ParseAddr(s)
		return err
	}
}

// localTowards is the address from which this machine reaches another.
func localTowards(to netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 4791))) // sends nothing
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// firstAddress is this machine's first address that others can reach, IPv4
// before IPv6: where a server answers that is told no address.
func firstAddress() (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	var v6 netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			return p.Addr(), nil
		}
		if !v6.IsValid() {
			v6 = p.Addr()
		}
	}
	if !v6.IsValid() {
		return netip.Addr{}, errors.New("no interface has an address; name one with the tool's option")
	}
	return v6, nil
}

// ownAddress chooses where our end is: as told, else towards the server, else
// the first address.
func ownAddress(told, server netip.Addr) (netip.Addr, error) {
	switch {
	case told.IsValid() && !told.IsUnspecified():
		return told, nil
	case server.IsValid():
		a, err := localTowards(server)
		if err != nil {
			return a, fmt.Errorf("no route to %v: %w", server, err)
		}
		return a, nil
	}
	return firstAddress()
}
