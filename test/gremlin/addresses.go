package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// addresses are addresses of this machine for the attackers' endpoints. Each can have one endpoint at a time, because
// all RoCEv2 traffic uses UDP port 4791.
type addresses struct {
	target netip.Addr
	list   []netip.Addr // used in turn; empty: 127.0.0.0/8
	next   int
}

var errNoAddress = errors.New("no address is left: give some of this machine with -from")

// addressesFor returns the addresses of this machine from which a target can be reached.
func addressesFor(target netip.Addr, given []netip.Addr) (*addresses, error) {
	a := &addresses{target: target, list: given}
	if len(given) > 0 || target.Is4() && target.IsLoopback() {
		return a, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		p, err := netip.ParsePrefix(x.String())
		if err != nil {
			continue
		}
		// An address of this machine can be reached from each of its other addresses.
		if addr := p.Addr(); addr.Is4() == target.Is4() && addr != target && !addr.IsLinkLocalUnicast() && (!addr.IsLoopback() || target.IsLoopback()) {
			a.list = append(a.list, addr)
		}
	}
	if len(a.list) == 0 {
		return nil, fmt.Errorf("this machine has no other address from which to reach %v: give some with -from", target)
	}
	return a, nil
}

// use calls open with the next address until open finds one that is not in use.
func use[T any](a *addresses, open func(netip.Addr) (T, error)) (v T, err error) {
	tries := len(a.list)
	if tries == 0 {
		tries = 250
	}
	last := errNoAddress
	for range tries {
		v, err = open(a.take())
		if err == nil || !isTaken(err) {
			return v, err
		}
		last = fmt.Errorf("%w: %w", errNoAddress, err)
	}
	return v, last
}

// take returns the next address, in use or not.
func (a *addresses) take() netip.Addr {
	a.next++
	if len(a.list) > 0 {
		return a.list[(a.next-1)%len(a.list)]
	}
	n := a.next%60000 + 1
	if addr := netip.AddrFrom4([4]byte{127, 0, byte(n >> 8), byte(n)}); addr != a.target {
		return addr
	}
	return a.take()
}

// many returns at most n addresses, and no more than there are, to forge packets from.
func (a *addresses) many(n int) (out []netip.Addr) {
	if len(a.list) > 0 {
		n = min(n, len(a.list))
	}
	for range n {
		out = append(out, a.take())
	}
	return out
}

func isTaken(err error) bool {
	return errors.Is(err, unix.EADDRINUSE) || isInUse(err)
}
