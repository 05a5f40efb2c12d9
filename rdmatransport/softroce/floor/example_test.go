package floor_test

import (
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/floor"
)

// How long a datagram of 64 bytes takes to come back over loopback.
func ExampleRoundTrip() {
	a, b := netip.MustParseAddr("127.80.3.1"), netip.MustParseAddr("127.80.3.2")
	trips, err := floor.RoundTrip(a, b, 100, 64, 64)
	fmt.Println(trips.Count, trips.P50 > 0, err)
	// Output:
	// 100 true <nil>
}
