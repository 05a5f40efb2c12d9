package udp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// A Network joins in-memory ports. It treats datagrams as a network of Linux
// hosts would, with faults from a seed: segments of one send travel as packets
// of their own with the IPv4 identifications that Linux gives them, receive
// buffers overflow, ports are steered like sockets.
//
// Every direction between two ports has a generator of its own, so what befalls
// its n-th packet depends on the seed and on that direction's packets alone, not
// on how goroutines interleave.
//
// Time is the time package's, and what blocks, blocks on channels, so that
// testing/synctest can fake it for a network made inside its bubble. Or, with
// Manual set, no time passes but by Advance, and Wait does not block: one
// goroutine can then drive all ports in turn.
//
// The exported fields are set before the first Join; only SetFaults may come
// later.
type Network struct {
	// Faults gives the faults of one direction; nil means none. It is called
	// under the network's lock, once for every message.
	Faults func(from, to netip.Addr) Faults
	// PathMTU is what MTU reports, and the largest IP packet that a port sends;
	// default 1500.
	PathMTU int
	// ReceiveBuffer is a port's effective buffer in bytes of truesize; default
	// 8 MiB. Beyond it packets are lost, as in a socket.
	ReceiveBuffer int
	NoGSO         bool // ports refuse segments
	Merge         bool // ports merge what one send has split, if it arrives in one piece (GRO)
	Manual        bool // time passes by Advance alone

	mu     sync.Mutex // guards what follows and the ports' queues
	seed   uint64
	start  time.Time
	clock  time.Duration // Manual
	groups map[netip.Addr]*memoryGroup
	flows  map[flowKey]*rand.Rand
	seq    uint64
	stats  NetworkStats
	free   freeList
}

// NetworkStats count the network's own doings, in packets.
type NetworkStats struct {
	Sent, Delivered, Lost, Duplicated, Corrupted, Reordered, Marked uint64

	Overflowed  uint64 // lost because the receiver's buffer was full
	Unreachable uint64 // nobody has that address
	TooBig      uint64 // larger than the path MTU, and not sent
}

// NewNetwork returns a network whose faults follow from the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{seed: seed, start: time.Now(), groups: map[netip.Addr]*memoryGroup{}, flows: map[flowKey]*rand.Rand{}}
}

// Hold holds an endpoint up for a time, as a process that is stopped: who asks it for what has arrived waits, and
// gets all of it then. It is not for a network that is Manual.
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

// Next is how long it takes until a packet arrives that Recv would not find now;
// false if none is under way.
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

// now is the time since the network was made. The caller holds the lock.
func (n *Network) now() time.Duration {
	if n.Manual {
		return n.clock
	}
	return time.Since(n.start)
}

// Join attaches an endpoint of so many ports to a network, as Listen does to the machine.
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

// Forge returns an endpoint that sends from an address that is, or may be, another's, as
// who does not keep to the rules of a network can. Nothing arrives there.
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
