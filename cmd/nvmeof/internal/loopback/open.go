package loopback

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// First is the first address of the loopback.
func First() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// tries is how many addresses of 127/8 are tried.
const tries = 250

// Has reports whether there is an address of the loopback from which to reach one of this
// machine: for those of IPv6 it is ::1 alone, and none from which to reach that.
func Has(target netip.Addr) bool {
	return target.Is4() || target != netip.IPv6Loopback() && !target.IsLinkLocalUnicast()
}

// Open opens the first address from 127.0.0.2 that nobody has and that is
// not except, or ::1 where that is one of IPv6.
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

// IsTaken reports whether somebody else has an address.
func IsTaken(err error) bool {
	var inUse *softroce.InUseError
	return errors.As(err, &inUse) || errors.Is(err, unix.EADDRINUSE)
}
