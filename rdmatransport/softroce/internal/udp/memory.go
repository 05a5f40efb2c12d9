package udp

import (
	"errors"
	"math/bits"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// memoryGroup is an endpoint of a Network.
type memoryGroup struct {
	network *Network
	addr    netip.Addr
	ports   []Port
	moved   bool          // continues as another group
	held    time.Duration // Recv does not return before this time, on the network's clock
}

func (g *memoryGroup) Addr() netip.Addr             { return g.addr }
func (g *memoryGroup) Ports() []Port                { return g.ports }
func (g *memoryGroup) Warnings() []string           { return nil }
func (g *memoryGroup) Node() rdmatransport.NUMANode { return 0 }

func (g *memoryGroup) MTU(netip.Addr) (int, error) { return g.network.mtu(), nil }

func (g *memoryGroup) Close() error {
	n := g.network
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.groups[g.addr] != g:
	case g.ports[0].(*memoryPort).begins: // an adopted group can be adopted again
		g.moved = true
	case !g.moved:
		delete(n.groups, g.addr)
	}
	return nil
}

// memoryPort is a port of a Network, whose lock guards inbound and the fields after it.
type memoryPort struct {
	network *Network
	group   *memoryGroup
	index   int
	sources []netip.AddrPort
	notify  chan struct{} // signalled by Wake

	// Wait sleeps until the timer fires: after the given time, or when a packet arrives, for which the sender of the
	// packet resets the timer.
	timer  *time.Timer
	asleep bool
	until  time.Duration // on the network's clock
	begins bool          // adopted and not begun: arrivals do not end a sleep

	inbound inbound
	queue   []arrival // the socket's receive buffer: arrived packets in order, starting at head
	head    int
	used    int    // sum of truesize over the queue
	gather  []byte // buffer for a message in one piece
	stats   Stats
}

func newMemoryPort(g *memoryGroup, index int) *memoryPort {
	p := &memoryPort{network: g.network, group: g, index: index, notify: make(chan struct{}, 1)}
	for i := range 4 {
		p.sources = append(p.sources, netip.AddrPortFrom(g.addr, uint16(0xc000+4*index+i)))
	}
	p.stats.ReceiveBuffer = g.network.ReceiveBuffer
	if p.stats.ReceiveBuffer == 0 {
		p.stats.ReceiveBuffer = 8 << 20
	}
	return p
}

func (p *memoryPort) NewBatch() *RecvBatch {
	return &RecvBatch{Datagrams: make([]Datagram, batchSlots)}
}

// settle moves packets that have arrived by now into the receive buffer. The buffer was not read since the port's
// last Recv, so calling settle late loses the same packets.
func (p *memoryPort) settle(now time.Duration) {
	p.inbound.expire(now)
	for len(p.inbound.heap) > 0 && p.inbound.heap[0].at <= now {
		a := p.inbound.pop()
		size := truesize(len(a.data))
		if p.used+size > p.stats.ReceiveBuffer {
			p.network.stats.Overflowed++
			p.stats.Overflow++
			p.network.free.give(a.data)
			continue
		}
		p.used += size
		p.queue = append(p.queue, a)
		p.network.stats.Delivered++
	}
}

// truesize approximates what Linux counts for a packet in a receive buffer: its descriptor, and a block from the
// allocator with room for headers and for the descriptor of fragments.
func truesize(n int) int {
	const headroom, trailer, descriptor, small = 100, 320, 256, 576
	if block := n + headroom + trailer; block > small {
		return descriptor + 1<<bits.Len(uint(block-1))
	}
	return descriptor + small
}

// take removes and returns the first packet of the receive buffer.
func (p *memoryPort) take() arrival {
	a := p.queue[p.head]
	p.queue[p.head] = arrival{}
	p.head++
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	} else if p.head >= 1024 {
		p.queue = p.queue[:copy(p.queue, p.queue[p.head:])]
		p.head = 0
	}
	p.used -= truesize(len(a.data))
	return a
}

func (p *memoryPort) Recv(b *RecvBatch) (int, error) {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for left := p.group.held - n.now(); left > 0; left = p.group.held - n.now() {
		n.mu.Unlock()
		time.Sleep(left)
		n.mu.Lock()
	}
	for _, data := range b.memory {
		n.free.give(data)
	}
	b.memory = b.memory[:0]
	p.stats.ReceiveCalls++
	p.settle(n.now())
	count := 0
	for ; count < len(b.Datagrams) && p.head < len(p.queue); count++ {
		a := p.take()
		d := &b.Datagrams[count]
		*d = Datagram{Data: a.data, From: a.from, TOS: a.tos, ID: -1}
		if p.group.addr.Is4() {
			d.ID = a.segment // as Linux numbers them
		}
		if n.Merge && p.follows(&a, 1, len(a.data)) {
			p.merge(d, &a)
		}
		b.memory = append(b.memory, d.Data)
		p.stats.Datagrams++
		p.stats.Bytes += uint64(len(d.Data))
	}
	return count, nil
}

// follows reports whether the next packet continues a merged datagram that began with first and has count segments
// and size bytes.
func (p *memoryPort) follows(first *arrival, count, size int) bool {
	if p.head == len(p.queue) || count == MaxSegments {
		return false
	}
	a, each := &p.queue[p.head], len(first.data)
	return a.from == first.from && a.tos == first.tos && a.segment == first.segment+int32(count) &&
		size == count*each && len(a.data) <= each && len(a.data) > 0 && size+len(a.data) <= MaxBurst
}

// merge merges the packets that follow first into one datagram.
func (p *memoryPort) merge(d *Datagram, first *arrival) {
	data := append(p.network.free.take(MaxBurst), first.data...)
	for count := 1; p.follows(first, count, len(data)); count++ {
		a := p.take()
		data = append(data, a.data...)
		p.network.free.give(a.data)
	}
	d.Data, d.SegmentSize = data, len(first.data)
	p.network.free.give(first.data)
	p.stats.Merged++
}

func (p *memoryPort) Send(ms []Message) int {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	sent := 0
	for i := range ms {
		if p.send(&ms[i]) {
			sent++
		}
	}
	p.stats.SendCalls++
	p.stats.Messages += uint64(sent)
	p.stats.SendLost += uint64(len(ms) - sent)
	return sent
}

// send splits a message into packets, if a socket would accept it.
func (p *memoryPort) send(m *Message) bool {
	n, size := p.network, m.size()
	each := size
	if m.SegmentSize > 0 {
		each = min(size, int(m.SegmentSize))
	}
	is4 := p.group.addr.Is4()
	if !m.valid(size, len(p.sources), is4) || n.NoGSO && each < size {
		return false
	}
	if each+ipHeader(is4)+udpHeader > n.mtu() {
		n.stats.TooBig++
		return false
	}
	var f Faults
	if n.Faults != nil {
		f = n.Faults(p.group.addr, m.To.Addr().Unmap())
	}
	p.gather = p.gather[:0]
	for _, b := range m.Pieces {
		p.gather = append(p.gather, b...)
	}
	segment := int32(0)
	for rest := p.gather; ; segment++ {
		b := rest[:min(each, len(rest))]
		rest = rest[len(b):]
		n.carry(p, m, &f, b, segment)
		if len(rest) == 0 {
			return true
		}
	}
}

func (p *memoryPort) Wake() {
	select {
	case p.notify <- struct{}{}:
	default:
	}
}

func (p *memoryPort) Wait(d time.Duration) {
	if !p.sleep(d) {
		return
	}
	select {
	case <-p.notify:
	case <-p.timer.C:
	}
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	p.asleep = false
	p.timer.Stop()
}

// noLimit is the sleep of a port without a deadline.
const noLimit = 1 << 62

// sleep sets the timer. It returns false if there is no reason to wait.
func (p *memoryPort) sleep(d time.Duration) bool {
	n := p.network
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	p.settle(now)
	if p.head < len(p.queue) && !p.begins || n.Manual || d == 0 {
		return false
	}
	if d < 0 {
		d = noLimit - now
	}
	p.until = now + d
	if at, ok := p.inbound.next(); ok && !p.begins {
		p.until = min(p.until, at)
	}
	p.asleep = true
	if p.timer == nil {
		p.timer = time.NewTimer(p.until - now)
	} else {
		p.timer.Reset(p.until - now)
	}
	return true
}

// expect makes a sleeping port wake up when the next packet arrives. The caller holds the network's lock.
func (p *memoryPort) expect() {
	if at, ok := p.inbound.next(); p.asleep && !p.begins && ok && at < p.until {
		p.until = at
		p.timer.Reset(at - p.network.now())
	}
}

// Watch implements Port. It fails, since there are no descriptors in memory.
func (p *memoryPort) Watch(int) error {
	return errors.New("an in-memory port cannot watch descriptors")
}

func (p *memoryPort) Sources() []netip.AddrPort { return p.sources }
func (p *memoryPort) GSO() bool                 { return !p.network.NoGSO }
func (p *memoryPort) ReceiveBudget() int        { return p.stats.ReceiveBuffer / 2 }

func (p *memoryPort) Stats() Stats {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	return p.stats
}
