package loopback

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// First returns the first address of the loopback.
func First() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// tries is the number of addresses of 127/8 that are tried.
const tries = 250

// Has reports whether a local target can be reached from a loopback address other than its own. For IPv6 the only one
// is ::1.
func Has(target netip.Addr) bool {
	return target.Is4() || target != netip.IPv6Loopback() && !target.IsLinkLocalUnicast()
}

// Open opens the first unused address from 127.0.0.2 on other than except, or ::1 if except is an IPv6 address.
func Open[D any](except netip.Addr, open func(netip.Addr) (D, error)) (none D, err error) {
	if except.Is6() {
		return open(netip.IPv6Loopback())
	}
	a := First()
	var last error
	for range tries {
		if a = a.Next(); a == except {
			continue
		}
		d, err := open(a)
		if err == nil || !IsTaken(err) {
			return d, err
		}
		last = err
	}
	return none, fmt.Errorf("none of the first %d addresses of 127/8 is free: %w", tries, last)
}

// IsTaken reports whether an error says that another endpoint uses the address.
func IsTaken(err error) bool {
	var inUse *softroce.InUseError
	return errors.As(err, &inUse) || errors.Is(err, unix.EADDRINUSE)
}
