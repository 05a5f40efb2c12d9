//go:build !race

// Between real sockets a peer's access to memory is ordered only by datagrams, which the race detector does not know.
// It would report every transfer.

package rdmatest_test

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func TestSoftroceSockets(t *testing.T) {
	rdmatest.Run(t, func(t *testing.T) rdmatest.Pair {
		open := func(addr string) *softroce.Device {
			d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr), Shards: shards()})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return rdmatest.Pair{
			Active: open("127.77.0.1"), Passive: open("127.77.0.2"), PassiveAddr: netip.MustParseAddr("127.77.0.2"),
			Unreachable: netip.MustParseAddrPort("127.77.0.9:4420"),
		}
	}, rdmatest.Traits{})
}
