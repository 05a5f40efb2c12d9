//go:build verbs && cgo && linux && !race

// A peer's access to memory is ordered by packets, which the race detector does not know.

package verbs_test

import (
	"flag"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

var (
	addr    = flag.String("addr", "", "address of an RDMA device, for the suite")
	nowhere = flag.String("nowhere", "", "address beside it at which nobody answers")
)

// TestSuite runs the suite of package rdmatest on one RDMA device, which is connected to itself.
func TestSuite(t *testing.T) {
	if *addr == "" || *nowhere == "" {
		t.Skip("needs an RDMA device: -addr and -nowhere (go test ./test/interop -guest -run TestVerbs has one)")
	}
	at := netip.MustParseAddr(*addr)
	rdmatest.Run(t, func(t *testing.T) rdmatest.Pair {
		pair := rdmatest.Pair{PassiveAddr: at, Unreachable: netip.AddrPortFrom(netip.MustParseAddr(*nowhere), 4420)}
		var err error
		if pair.Active, err = verbs.Open(verbs.Config{Addr: at, Shards: 4, LooseWindows: true}); err != nil {
			t.Fatal(err)
		}
		if pair.Passive, err = verbs.Open(verbs.Config{Addr: at, Shards: 4, LooseWindows: true}); err != nil {
			t.Fatal(err)
		}
		return pair
	}, rdmatest.Traits{CoarseErrors: true, LooseWindows: true})
}
