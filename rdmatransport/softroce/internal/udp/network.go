package udp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// A Network connects in-memory ports. It handles datagrams like a network of Linux hosts, with seeded random faults:
// segments of one send travel as separate packets with the IPv4 identifications that Linux gives them, receive
// buffers overflow, and datagrams are steered to ports as to sockets.
//
// Every direction between two ports has its own random number generator. So the fate of its n-th packet depends only
// on the seed and on that direction's packets, not on how goroutines interleave.
//
// Time is that of package time, and blocking is on channels, so that testing/synctest can fake the time of a network
// that is created inside its bubble. With Manual set, time passes only through Advance, and Wait does not block: one
// goroutine can then drive all ports in turn.
//
// The exported fields must be set before the first Join. Only SetFaults may be called later.
type Network struct {
	// Faults returns the faults of one direction; nil means none. It is called under the network's lock, once per
	// message.
	Faults func(from, to netip.Addr) Faults
	// PathMTU is the size of the largest IP packet that a port sends, as returned by MTU; default 1500.
	PathMTU int
	// ReceiveBuffer is the effective size of a port's buffer in bytes of truesize; default 8 MiB. Packets beyond it
	// are lost, as in a socket.
	ReceiveBuffer int
	NoGSO         bool // ports do not support segmentation
	Merge         bool // ports merge the packets of one send if they arrive consecutively (GRO)
	Manual        bool // time passes only through Advance

	mu     sync.Mutex // guards the fields below and the ports' queues
	seed   uint64
	start  time.Time
	clock  time.Duration // time of a Manual network
	groups map[netip.Addr]*memoryGroup
	flows  map[flowKey]*rand.Rand
	seq    uint64
	stats  NetworkStats
	free   freeList
}

// NetworkStats counts packets and their faults.
type NetworkStats struct {
	Sent, Delivered, Lost, Duplicated, Corrupted, Reordered, Marked uint64

	Overflowed  uint64 // lost because the receiver's buffer was full
	Unreachable uint64 // no endpoint has that address
	TooBig      uint64 // larger than the path MTU, not sent
}

// NewNetwork returns a network whose faults are determined by the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{seed: seed, start: time.Now(), groups: map[netip.Addr]*memoryGroup{}, flows: map[flowKey]*rand.Rand{}}
}

// Hold pauses an endpoint for a time, like a stopped process: Recv blocks, and then returns everything that has
// arrived. It must not be used with Manual.
func (n *Network) Hold(addr netip.Addr, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.groups[addr]; g != nil {
		g.held = max(g.held, n.now()+d)
	}
}

// SetFaults replaces Faults while the network is in use.
func (n *Network) SetFaults(f func(from, to netip.Addr) Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Faults = f
}

// Stats returns the counters.
func (n *Network) Stats() NetworkStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// Advance moves the clock of a Manual network.
func (n *Network) Advance(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock += d
}

// Next returns the time until the next packet arrives that Recv would not return now, and false if none is in flight.
func (n *Network) Next() (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, first, found := n.now(), n.now(), false
	for _, g := range n.groups {
		for _, p := range g.ports {
			p := p.(*memoryPort)
			p.settle(now)
			if at, ok := p.inbound.next(); ok && (!found || at < first) {
				first, found = at, true
			}
		}
	}
	return first - now, found
}

// now returns the time since the network was created. The caller holds the lock.
func (n *Network) now() time.Duration {
	if n.Manual {
		return n.clock
	}
	return time.Since(n.start)
}

// Join attaches an endpoint with the given number of ports to a network, as Listen does to the machine.
func Join(n *Network, addr netip.Addr, shards int) (Group, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr = addr.Unmap()
	if g := n.groups[addr]; g != nil && !g.moved {
		return nil, &InUseError{Addr: addr}
	}
	if shards < 0 || shards > maxShards {
		return nil, fmt.Errorf("%d shards, want 1 to %d", shards, maxShards)
	}
	g := &memoryGroup{network: n, addr: addr}
	for i := range max(1, shards) {
		g.ports = append(g.ports, newMemoryPort(g, i))
	}
	n.groups[addr] = g
	return g, nil
}

// Forge returns an endpoint that sends from an address that may be another's, like a host that forges source
// addresses. Nothing is delivered to it.
func Forge(n *Network, addr netip.Addr) Group {
	g := &memoryGroup{network: n, addr: addr.Unmap()}
	g.ports = []Port{newMemoryPort(g, 0)}
	return g
}

func (n *Network) mtu() int {
	if n.PathMTU == 0 {
		return 1500
	}
	return n.PathMTU
}
