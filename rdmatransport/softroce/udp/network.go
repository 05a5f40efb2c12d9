package udp

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// A Network joins in-memory ports. It treats datagrams as a network of Linux
// hosts would, IPv4 identifications included, with faults from a seed. Time is
// the time package's, so that testing/synctest can fake it; what blocks, blocks
// on channels.
type Network struct {
	// Faults gives the faults of one direction; nil means none. It is read under
	// the network's lock, for every datagram.
	Faults func(from, to netip.Addr) Faults
	// PathMTU is what MTU reports; default 1500.
	PathMTU int
	// ReceiveBuffer is a port's buffer in bytes of truesize; default 8 MiB.
	// Beyond it datagrams are lost, as in a socket.
	ReceiveBuffer int
	// NoGSO makes ports refuse segments.
	NoGSO bool

	mu     sync.Mutex // guards what follows and the queues of all ports
	rng    *rand.Rand
	groups map[netip.Addr]*memoryGroup
	seq    uint64
	stats  NetworkStats
}

// Faults are probabilities (0 to 1) and delays of one direction.
type Faults struct {
	Loss, Duplicate, Corrupt float64
	Delay                    time.Duration
	Jitter                   time.Duration // added, uniformly: reorders
	Reorder                  float64       // share that skips the delay
	// Drop, if set, loses the datagrams that it reports true for.
	Drop func(payload []byte) bool
}

// NetworkStats count the network's own doings.
type NetworkStats struct {
	Sent, Lost, Duplicated, Corrupted, Overflowed, Unreachable uint64
}

// NewNetwork returns a network whose faults follow from the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{rng: rand.New(rand.NewPCG(seed, 0x726f6365)), groups: map[netip.Addr]*memoryGroup{}}
}

// Stats returns the counters.
func (n *Network) Stats() NetworkStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// Listen attaches an endpoint, as the package's Listen does.
func (n *Network) Listen(addr netip.Addr, shards int) (Group, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr = addr.Unmap()
	if n.groups[addr] != nil {
		return nil, fmt.Errorf("%v is taken", addr)
	}
	g := &memoryGroup{network: n, addr: addr}
	for i := range max(1, shards) {
		p := &memoryPort{network: n, addr: addr, notify: make(chan struct{}, 1)}
		for j := range 4 {
			p.sources = append(p.sources, netip.AddrPortFrom(addr, uint16(0xc000+i*4+j)))
		}
		g.ports = append(g.ports, p)
	}
	n.groups[addr] = g
	return g, nil
}

type memoryGroup struct {
	network *Network
	addr    netip.Addr
	ports   []Port
}

func (g *memoryGroup) Addr() netip.Addr { return g.addr }
func (g *memoryGroup) Ports() []Port    { return g.ports }

func (g *memoryGroup) MTU(netip.Addr) (int, error) {
	if g.network.PathMTU == 0 {
		return 1500, nil
	}
	return g.network.PathMTU, nil
}

func (g *memoryGroup) Close() error {
	n := g.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[g.addr] == g {
		delete(n.groups, g.addr)
	}
	return nil
}

// memoryPort's queue is guarded by the network's lock.
type memoryPort struct {
	network *Network
	addr    netip.Addr
	sources []netip.AddrPort
	queue   arrivals
	held    int // truesize of the queue
	stats   Stats
	notify  chan struct{}
}

type arrival struct {
	at   time.Time
	seq  uint64
	from netip.AddrPort
	id   int32
	tos  uint8
	data []byte
}

type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].seq < a[j].seq
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = arrival{}
	*a = (*a)[:last]
	return x
}

func (p *memoryPort) NewBatch() *RecvBatch {
	return &RecvBatch{Datagrams: make([]Datagram, batchSlots)}
}

func (p *memoryPort) Recv(b *RecvBatch) (int, error) {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	count := 0
	for count < len(b.Datagrams) && len(p.queue) > 0 && !p.queue[0].at.After(now) {
		a := heap.Pop(&p.queue).(arrival)
		p.held -= truesize(len(a.data))
		b.Datagrams[count] = Datagram{Data: a.data, From: a.from, TOS: a.tos, ID: a.id}
		count++
	}
	p.stats.Datagrams += uint64(count)
	return count, nil
}

// truesize is what a packet occupies in a socket's receive buffer.
func truesize(n int) int { return 768 + 2*n }

func (p *memoryPort) Send(ms []Message) int {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range ms {
		m := &ms[i]
		var whole []byte
		for _, b := range m.Pieces {
			whole = append(whole, b...)
		}
		size := len(whole)
		if m.SegmentSize > 0 {
			size = int(m.SegmentSize)
		}
		for k := int32(0); len(whole) > 0; k++ {
			part := whole[:min(size, len(whole))]
			whole = whole[len(part):]
			n.carry(p, m, part, k)
		}
	}
	return len(ms)
}

// carry takes one packet through the network's faults to its port.
func (n *Network) carry(from *memoryPort, m *Message, data []byte, id int32) {
	n.stats.Sent++
	g := n.groups[m.To.Addr()]
	if g == nil || m.To.Port() != roce {
		n.stats.Unreachable++
		return
	}
	var f Faults
	if n.Faults != nil {
		f = n.Faults(from.addr, g.addr)
	}
	copies := 1
	if n.rng.Float64() < f.Duplicate {
		copies = 2
		n.stats.Duplicated++
	}
	for range copies {
		if n.rng.Float64() < f.Loss || f.Drop != nil && f.Drop(data) {
			n.stats.Lost++
			continue
		}
		a := arrival{at: time.Now().Add(n.delay(&f)), from: from.sources[m.Source], id: id, tos: m.TOS, data: append([]byte(nil), data...)}
		if n.rng.Float64() < f.Corrupt {
			n.corrupt(a.data)
		}
		n.deliver(g, a)
	}
}

func (n *Network) delay(f *Faults) time.Duration {
	if n.rng.Float64() < f.Reorder {
		return 0
	}
	d := f.Delay
	if f.Jitter > 0 {
		d += time.Duration(n.rng.Int64N(int64(f.Jitter)))
	}
	return d
}

// corrupt flips one to eight bits.
func (n *Network) corrupt(b []byte) {
	n.stats.Corrupted++
	for range 1 + n.rng.IntN(8) {
		b[n.rng.IntN(len(b))] ^= 1 << n.rng.IntN(8)
	}
}

// deliver steers by the destination queue pair number, like the sockets' program.
func (n *Network) deliver(g *memoryGroup, a arrival) {
	shard := 0
	if len(a.data) >= 8 {
		if qpn := int(a.data[5])<<16 | int(a.data[6])<<8 | int(a.data[7]); qpn != 1 {
			shard = qpn % len(g.ports)
		}
	}
	p := g.ports[shard].(*memoryPort)
	size := truesize(len(a.data))
	if p.held+size > p.buffer() {
		n.stats.Overflowed++
		p.stats.Overflow++
		return
	}
	p.held += size
	n.seq++
	a.seq = n.seq
	heap.Push(&p.queue, a)
	p.Wake()
}

func (p *memoryPort) buffer() int {
	if p.network.ReceiveBuffer == 0 {
		return 8 << 20
	}
	return p.network.ReceiveBuffer
}

func (p *memoryPort) Wake() {
	select {
	case p.notify <- struct{}{}:
	default:
	}
}

func (p *memoryPort) Wait(d time.Duration) {
	p.network.mu.Lock()
	if len(p.queue) > 0 {
		if next := max(0, time.Until(p.queue[0].at)); d < 0 || next < d {
			d = next
		}
	}
	p.network.mu.Unlock()
	if d == 0 {
		return
	}
	if d < 0 {
		<-p.notify
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.notify:
	case <-t.C:
	}
}

// Watch implements Port: there are no descriptors in memory.
func (p *memoryPort) Watch(int) error {
	return errors.New("an in-memory port cannot watch descriptors")
}

func (p *memoryPort) Sources() []netip.AddrPort { return p.sources }
func (p *memoryPort) GSO() bool                 { return !p.network.NoGSO }
func (p *memoryPort) ReceiveBudget() int        { return p.buffer() / 2 }

func (p *memoryPort) Stats() Stats {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	return p.stats
}
