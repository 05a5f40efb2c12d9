package gateway

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// address is that of a host or gateway of a test.
func address(last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 104, byte(os.Getpid() % 250), last})
}

// testHost is a host at an address of its own.
func testHost(t *testing.T, last byte) *host.Host {
	t.Helper()
	device, err := softroce.Open(softroce.Config{Addr: address(last)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	h, err := host.New(host.Config{Device: device, Shards: 1, Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestDiscovery: each gateway's discovery log has the listeners of all, with a generation that
// follows from the store, and does not go back when a gateway is started again.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	h := testHost(t, 99)
	last := uint64(0)
	log := func(n *node, port byte, entries int) uint64 {
		t.Helper()
		began := time.Now()
		for {
			l, err := h.Discover(t.Context(), host.Options{Traddr: address(port)})
			if err == nil && len(l.Entries) == entries && l.Generation&0xffff == 0 {
				t.Logf("%d entries of %s after %v, generation %d", entries, n.name, time.Since(began), l.Generation>>16)
				return l.Generation
			}
			if err == nil && l.Generation < last {
				t.Errorf("generation %d of %s, after %d", l.Generation, n.name, last)
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%+v %v, want %d entries", l, err, entries)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(6, 1))))
	a := start(t, store.Open(time.Second), "gw1", 71)
	doc := document(t)
	doc.Subsystems[0].Hosts, doc.Subsystems[0].AllowAnyHost = nil, true
	if _, err := a.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	last = log(a, 71, 2) // the discovery subsystem, and the subsystem
	b := start(t, store.Open(time.Second), "gw2", 72)
	both := log(a, 71, 3)
	if other := log(b, 72, 3); other != both || both <= last {
		t.Errorf("generations %d and %d, after %d", both, other, last)
	}
	last = both
	b.stop()
	if both = log(a, 71, 2); both <= last {
		t.Errorf("generation %d, after %d", both, last)
	}
	last = both
	a.stop()
	a = start(t, store.Open(time.Second), "gw1", 71)
	if both = log(a, 71, 2); both < last {
		t.Errorf("generation %d, after %d", both, last)
	}
}
