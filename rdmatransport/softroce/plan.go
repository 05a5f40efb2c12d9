package softroce

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	maxSegments = 64    // of one GSO send (UDP_MAX_SEGMENTS of older kernels)
	maxSuper    = 65000 // bytes of one GSO send
	// lookBack is how many messages of one socket are tried for a packet: one for
	// each size that a turn has (data, capsules or responses, acknowledgements), and
	// one more.
	lookBack = 4
)

// A route is what packets of one message have in common beside their size. A
// merged datagram goes to one shard of the peer as a whole, so that packets for
// different ones are not merged.
type route struct {
	to     netip.AddrPort // where datagrams go
	source uint8          // which transmit socket
	tos    uint8
	lane   uint8 // shard of a peer of our own kind
}

// A gathering is a message to be: packets linked by plan.next.
type gathering struct {
	route       *route     // of all
	owner       *queuePair // of the first
	first, last int16
	size        int // of the segments
	total       int // bytes
	count       int // segments
	closed      bool
}

// A plan says which packets of a turn go out in one send. The packets of one
// queue pair keep their order. Those of others may go round them, so that what a
// thousand connections send in a turn, one packet of data and one response each,
// takes as few sends as what one connection sends.
type plan struct {
	messages []gathering
	next     []int16 // of each packet in its message; negative: the last
	turn     uint32
	open     [udp.MaxTransmit][lookBack]int16 // of each socket: its latest messages, a ring; negative: none
	newest   [udp.MaxTransmit]uint8           // in the ring
}

// planned is a queue pair's part in a plan.
type planned struct {
	turn uint32
	last int // the message that its last packet is in
}

func (p *plan) init(packets int) {
	p.messages = make([]gathering, 0, packets)
	p.next = make([]int16, packets)
}

// make returns the messages in order of sending, until the next call.
func (p *plan) make(owners []*queuePair, pkts []rc.Out, segments bool) []gathering {
	p.turn++
	p.messages = p.messages[:0]
	for i := range p.open {
		p.open[i] = [lookBack]int16{-1, -1, -1, -1}
	}
	alone := owners[0] == owners[len(owners)-1]
	for i, q := range owners {
		if q.planned.turn != p.turn {
			q.planned = planned{turn: p.turn}
		}
		o := &pkts[i]
		size := int(o.HLen) + int(o.Length) + int(o.Pad) + wire.ICRCSize
		at := -1
		if segments {
			at = p.find(q, size, alone)
		}
		p.put(at, q, int16(i), size)
	}
	return p.messages
}

// find looks for a message that the packet may join, the newest first; -1: none.
func (p *plan) find(q *queuePair, size int, alone bool) int {
	ring, newest := &p.open[q.route.source], p.newest[q.route.source]
	for k := range uint8(lookBack) {
		at := int(ring[(newest-k)%lookBack])
		if at < q.planned.last || at < 0 {
			break
		}
		m := &p.messages[at]
		if m.closed || m.count == maxSegments || m.total+size > maxSuper {
			continue
		}
		// The last segment may be shorter, which then ends the message.
		if size == m.size && (m.owner == q || *m.route == q.route) || size < m.size && m.owner == q && alone {
			return at
		}
	}
	return -1
}

// put appends packet i to a message, or to a new one.
func (p *plan) put(at int, q *queuePair, i int16, size int) {
	p.next[i] = -1
	if at < 0 {
		at = len(p.messages)
		p.messages = append(p.messages, gathering{route: &q.route, owner: q, first: i, size: size})
		newest := &p.newest[q.route.source]
		*newest = (*newest + 1) % lookBack
		p.open[q.route.source][*newest] = int16(at)
	} else {
		p.next[p.messages[at].last] = i
	}
	m := &p.messages[at]
	m.last, m.closed = i, size < m.size
	m.total += size
	m.count++
	q.planned.last = at
}
