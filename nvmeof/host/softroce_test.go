package host

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// newSoftroceRig is a rig over an in-memory network.
func newSoftroceRig(t *testing.T, cfg rigConfig, network *softroce.Network) *rig {
	t.Helper()
	open := func(addr string) rdmatransport.Device {
		at := netip.MustParseAddr(addr)
		d, err := softroce.Open(softroce.Config{Addr: at, Shards: 2, Network: network})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	cfg.host.Shards, cfg.target.Shards = 2, 2
	return startRig(t, cfg, open("192.0.2.1"), open("192.0.2.2"), netip.MustParseAddrPort("192.0.2.2:4420"))
}

// exercise writes and reads at random from several goroutines.
func exercise(t *testing.T, n *Namespace, goroutines, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	share := n.Size() / int64(goroutines) &^ 4095
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			b, want := make([]byte, 1<<20), make([]byte, 1<<20)
			for i := range rounds {
				size := n.BlockSize() * (1 + rng.IntN(1<<rng.IntN(9)))
				off := int64(g)*share + int64(rng.IntN(int(share)-size))&^int64(n.BlockSize()-1)
				pattern(b[:size], g*100+i)
				copy(want, b[:size])
				if _, err := n.WriteAt(b[:size], off); err != nil {
					t.Errorf("WriteAt: %v", err)
					return
				}
				clear(b[:size])
				if _, err := n.ReadAt(b[:size], off); err != nil || !bytes.Equal(b[:size], want[:size]) {
					t.Errorf("goroutine %d, round %d: %d bytes at %d differ, or %v", g, i, size, off, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestSoftroce(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint("MTU ", mtu), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				network := softroce.NewNetwork(1)
				network.PathMTU = mtu
				r := newSoftroceRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}}, network)
				c := r.connect(r.options())
				exercise(t, r.namespace(c), 4, 30)
			})
		})
	}
}

// TestSoftroceSmallBuffer: the receive buffer of an unprivileged user is sufficient.
func TestSoftroceSmallBuffer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		network := softroce.NewNetwork(2)
		network.ReceiveBuffer = 2 * 212992
		network.PathMTU = 9000
		r := newSoftroceRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}}, network)
		c := r.connect(r.options())
		exercise(t, r.namespace(c), 4, 30)
		if got := network.Stats().Overflowed; got != 0 {
			t.Logf("%d datagrams overflowed a receive buffer", got)
		}
	})
}

// TestSoftroceLossy: the network loses, duplicates, reorders and corrupts datagrams.
func TestSoftroceLossy(t *testing.T) {
	faults := softroce.Faults{
		Loss: 0.02, Duplicate: 0.01, Corrupt: 0.005, Reorder: 0.05,
		Delay: 100 * time.Microsecond, Jitter: 50 * time.Microsecond,
	}
	seeds := uint64(1)
	if *long {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				network := softroce.NewNetwork(seed)
				network.Faults = func(netip.Addr, netip.Addr) softroce.Faults { return faults }
				r := newSoftroceRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}}, network)
				c := r.connect(r.options())
				exercise(t, r.namespace(c), 3, 20)
				if err := c.Err(); err != nil {
					t.Errorf("controller was lost: %v", err)
				}
			})
		})
	}
}

// TestSoftroceSilentPeer: a target that is cut off is noticed, and so is a host.
func TestSoftroceSilentPeer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var cut atomic.Bool
		network := softroce.NewNetwork(1)
		network.Faults = func(netip.Addr, netip.Addr) softroce.Faults {
			if cut.Load() {
				return softroce.Faults{Loss: 1}
			}
			return softroce.Faults{}
		}
		r := newSoftroceRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}}, network)
		o := r.options()
		o.KeepAliveTmo = 2 * time.Second
		c := r.connect(o)
		n := r.namespace(c)
		start := time.Now()
		cut.Store(true)
		_, err := n.ReadAt(make([]byte, 4096), 0)
		if err == nil {
			t.Error("read from a target that is cut off")
		}
		<-c.Done()
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("a silent target was noticed after %v", d)
		}
		time.Sleep(30 * time.Second)
		if got := len(r.target.Controllers()); got != 0 {
			t.Errorf("target has %d controllers of a host that is gone", got)
		}
		cut.Store(false)
		if _, err := r.namespace(r.connect(o)).ReadAt(make([]byte, 4096), 0); err != nil {
			t.Errorf("reading after the cut: %v", err)
		}
	})
}

// TestSoftroceSockets uses the machine's loopback interface.
func TestSoftroceSockets(t *testing.T) {
	open := func(addr string) rdmatransport.Device {
		d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	cfg := rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}, target: target.Config{Shards: 1}}
	r := startRig(t, cfg, open("127.78.0.1"), open("127.78.0.2"), netip.MustParseAddrPort("127.78.0.2:4420"))
	c := r.connect(r.options())
	exercise(t, r.namespace(c), 2, 30)
}
