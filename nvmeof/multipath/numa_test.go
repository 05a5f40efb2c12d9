package multipath

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/fstest"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// TestNearest: of two otherwise equal paths, requests use the one whose device is on the processor's NUMA node, though
// it is the second path, and the other one when that is lost.
func TestNearest(t *testing.T) {
	here := currentNode()
	if here == 0 {
		t.Skip("the system does not say at which node a processor is")
	}
	inBubble(t, func(t *testing.T) {
		loopback := rdmatest.NewLoopback()
		l := newLabOn(t, 2, loopback)
		cfg := l.config()
		far := here + 1
		for i, node := range []rdmatransport.NUMANode{far, here} {
			attrs := rdmatest.Attrs()
			attrs.Node = node
			d, err := loopback.Open(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}), attrs)
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(host.Config{Device: d, Shards: 1, Polling: nvmeof.PollNever, Identity: l.host.Identity()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.must(h.Close()); l.must(d.Close()) })
			cfg.Paths[i].Host = h
		}
		s := l.connect(cfg)
		s.nodes = loadNodes(fstest.MapFS{
			fmt.Sprintf("devices/system/node/node%d/distance", here-1): {Data: []byte("10 21\n")},
			fmt.Sprintf("devices/system/node/node%d/distance", far-1):  {Data: []byte("21 10\n")},
		})
		n := l.namespace(s)
		counts := func() (first, second uint64) {
			return s.Paths()[0].Status().Completed, s.Paths()[1].Status().Completed
		}
		for range 100 {
			if a, b := writeBoth(t, n, 0); a != nil || b != nil {
				t.Fatal(a, b)
			}
		}
		if first, second := counts(); first != 0 || second < 200 {
			t.Errorf("the far path carried %d requests, the near one %d", first, second)
		}
		s.Paths()[1].Delete()
		if a, b := writeBoth(t, n, 0); a != nil || b != nil {
			t.Errorf("by the far one: %v, %v", a, b)
		}
	})
}
