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

// Open opens the first address from 127.0.0.2 that nobody has and that is
// not except.
func Open[D any](except netip.Addr, open func(netip.Addr) (D, error)) (none D, err error) {
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
