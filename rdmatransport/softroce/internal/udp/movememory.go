package udp

import (
	"fmt"
	"net/netip"
	"os"
)

// Prepare implements Group.
func (g *memoryGroup) Prepare() error { return nil }

// Move implements Group. There are no descriptors: the ports stay in the network, with the packets that have arrived,
// until Readopt.
func (g *memoryGroup) Move() (Moved, []*os.File, error) {
	n := g.network
	n.mu.Lock()
	defer n.mu.Unlock()
	g.moved = true
	for _, p := range g.ports {
		p.(*memoryPort).begins = true // further arrivals are for the next owner
	}
	return Moved{Transmit: len(g.ports[0].(*memoryPort).sources), Overflow: make([]uint32, len(g.ports))}, nil, nil
}

// Readopt continues with a moved endpoint of a network, as Adopt does with sockets.
func Readopt(n *Network, addr netip.Addr, m Moved, files []*os.File) (Group, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr = addr.Unmap()
	old := n.groups[addr]
	switch {
	case old == nil || !old.moved:
		return nil, fmt.Errorf("the network has no endpoint %v that was moved", addr)
	case len(m.Overflow) != len(old.ports) || len(files) > 0:
		return nil, fmt.Errorf("%d ports and %d descriptors, want %d and none", len(m.Overflow), len(files), len(old.ports))
	}
	g := &memoryGroup{network: n, addr: addr}
	for i, p := range old.ports {
		was, next := p.(*memoryPort), newMemoryPort(g, i)
		next.inbound, next.queue, next.head, next.used, next.begins = was.inbound, was.queue, was.head, was.used, true
		was.inbound, was.queue, was.head, was.used = inbound{}, nil, 0, 0
		g.ports = append(g.ports, next)
	}
	n.groups[addr] = g
	return g, nil
}

// Begin implements Port.
func (p *memoryPort) Begin() error {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	p.begins = false
	return nil
}
