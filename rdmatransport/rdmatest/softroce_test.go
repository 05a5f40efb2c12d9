package rdmatest_test

import (
	"flag"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

var long = flag.Bool("long", false, "a second seed, and more shards")

// shards returns the number of shards of each device. It is small because 4 MiB of memory are cleared per socket.
func shards() int {
	if *long {
		return 4
	}
	return 2
}

// openInMemory opens two softroce devices on an in-memory network.
func openInMemory(t *testing.T, seed uint64, faults softroce.Faults) rdmatest.Pair {
	network := softroce.NewNetwork(seed)
	network.Faults = func(from, to netip.Addr) softroce.Faults { return faults }
	open := func(addr string) *softroce.Device {
		at := netip.MustParseAddr(addr)
		d, err := softroce.Open(softroce.Config{Addr: at, Shards: shards(), Network: network})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return rdmatest.Pair{
		Active: open("192.0.2.1"), Passive: open("192.0.2.2"), PassiveAddr: netip.MustParseAddr("192.0.2.2"),
		Unreachable: netip.MustParseAddrPort("192.0.2.9:4420"),
	}
}

const networkAllocates = "the in-memory network allocates its datagrams"

func TestSoftroceInMemory(t *testing.T) {
	rdmatest.Run(t, func(t *testing.T) rdmatest.Pair { return openInMemory(t, 1, softroce.Faults{}) },
		rdmatest.Traits{InBubble: true, Allocates: networkAllocates})
}

func TestSoftroceLossy(t *testing.T) {
	faults := softroce.Faults{
		Loss: 0.03, Duplicate: 0.02, Corrupt: 0.01, Reorder: 0.05,
		Delay: 50 * time.Microsecond, Jitter: 20 * time.Microsecond,
	}
	seeds := uint64(1)
	if *long {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rdmatest.Run(t, func(t *testing.T) rdmatest.Pair { return openInMemory(t, seed, faults) },
				rdmatest.Traits{InBubble: true, Lossy: true, Allocates: networkAllocates})
		})
	}
}
