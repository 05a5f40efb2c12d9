package badinput

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

var (
	targetAddr   = netip.MustParseAddr("192.0.2.1")
	hostAddr     = netip.MustParseAddr("192.0.2.2")
	gremlinAddr  = netip.MustParseAddr("192.0.2.3")
	strangerAddr = netip.MustParseAddr("192.0.2.4")
)

const (
	nvmePort  = 4420
	ownerPort = 4421 // of the memory owner, see memory_test.go
	subNQN    = "nqn.2026-11.io.example:test"
	hostNQN   = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
)

var hostID = capsule.HostID{1, 2, 3}

// A lab is a target, a well-behaved host with a live association, and a gremlin, on an in-memory network.
type lab struct {
	t       *testing.T
	network *udp.Network
	device  *softroce.Device
	target  *target.Target
	store   *memory.Store
	host    *host
	gremlin *gremlin
	highPSN atomic.Bool // the device's random numbers are all ones
}

// newLabOf returns a lab with receive buffers of the given size in bytes; 0: large ones.
func newLabOf(t *testing.T, receiveBuffer int) *lab {
	t.Helper()
	l := &lab{t: t, network: udp.NewNetwork(1)}
	l.network.ReceiveBuffer = receiveBuffer
	l.device = l.open(targetAddr, 2)
	var err error
	l.target, err = target.New(target.Config{Device: l.device, Polling: nvmeof.PollNever, Shards: 2, Arena: 4 << 20})
	l.must(err)
	sub, err := l.target.AddSubsystem(target.SubsystemConfig{NQN: subNQN})
	l.must(err)
	sub.AllowHost(hostNQN)
	l.store, err = memory.New(memory.Config{Size: 1 << 20})
	l.must(err)
	_, err = sub.AddNamespace(target.NamespaceConfig{Store: l.store})
	l.must(err)
	_, err = l.target.Listen(netip.AddrPortFrom(targetAddr, nvmePort))
	l.must(err)
	l.host = newHost(l)
	l.gremlin = newGremlin(l, gremlinAddr)
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) open(addr netip.Addr, shards int) *softroce.Device {
	l.t.Helper()
	rng := rand.NewChaCha8([32]byte(append(addr.AsSlice(), make([]byte, 28)...)))
	var lock atomic.Bool
	d, err := softroce.Open(softroce.Config{Addr: addr, Shards: shards, Network: l.network, Random: func(b []byte) {
		for !lock.CompareAndSwap(false, true) {
		}
		defer lock.Store(false)
		rng.Read(b)
		if l.highPSN.Load() {
			binary.LittleEndian.PutUint32(b, 0xffffffff)
		}
	}})
	l.must(err)
	return d
}

// close closes everything; the bubble then requires that no goroutine is left.
func (l *lab) close() {
	l.t.Helper()
	l.host.close()
	if err := errors.Join(l.target.Close(), l.device.Close(), l.store.Close(), l.gremlin.group.Close()); err != nil {
		l.t.Error(err)
	}
}

// A counter picks one of a shard's counters.
type counter func(*softroce.Stats) uint64

func sum(d *softroce.Device, c counter) (n uint64) {
	for _, s := range d.Stats() {
		n += c(&s)
	}
	return n
}

func queuePairs(s *softroce.Stats) uint64 { return uint64(s.QueuePairs) }

// An attack is one row of the catalogue, or a part of it.
type attack struct {
	row     string
	run     func(l *lab) // sends the input and checks the answer
	counter counter      // must have been incremented; nil: the input is not an error
	buffer  int          // of receive sockets, in bytes; 0: a large one
	atHost  bool         // the host's device is the victim, not the target's
}

// test runs each attack in a lab of its own and checks what no attack may harm.
func test(t *testing.T, attacks []attack) {
	for _, a := range attacks {
		t.Run(a.row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLabOf(t, a.buffer)
				defer l.close()
				l.withstand(&a)
			})
		})
	}
}

func (l *lab) withstand(a *attack) {
	t, victim := l.t, l.device
	if a.atHost {
		victim = l.host.device
	}
	pairs, controllers, counted := sum(victim, queuePairs), len(l.target.Controllers()), uint64(0)
	if a.counter != nil {
		counted = sum(victim, a.counter)
	}
	a.run(l)
	if a.counter != nil && sum(victim, a.counter) <= counted {
		t.Error("the counter did not move")
	}
	l.host.work() // while the gremlin's connection may still exist
	l.gremlin.leave()
	time.Sleep(30 * time.Second) // until all timeouts for the gremlin have expired
	if n := sum(victim, queuePairs); n != pairs {
		t.Errorf("%d queue pairs, %d before", n, pairs)
	}
	if n := len(l.target.Controllers()); n != controllers {
		t.Errorf("%d controllers, %d before", n, controllers)
	}
	l.gremlin.forget()
	l.host.work()
	l.host.again()
	fresh := l.gremlin.login()
	fresh.alive()
	l.gremlin.leave()
}
