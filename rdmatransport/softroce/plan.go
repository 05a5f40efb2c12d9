package softroce

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	maxSegments = 64    // per GSO send (UDP_MAX_SEGMENTS of older kernels)
	maxSuper    = 65000 // bytes per GSO send
	// lookBack is the number of messages per socket that are considered for a packet: one for each packet size in a
	// turn (data, capsules or responses, acknowledgements), and one more.
	lookBack = 4
)

// A route is what the packets of one message have in common apart from their size. A merged datagram is delivered to
// one shard of the peer as a whole, so packets for different shards are not merged.
type route struct {
	to     netip.AddrPort // destination of datagrams
	source uint8          // index of the transmit socket
	tos    uint8
	lane   uint8 // the peer's shard, if the peer is softroce
}

// A gathering is a message that is being built: packets linked by plan.next.
type gathering struct {
	route       *route     // of all packets
	owner       *queuePair // of the first packet
	first, last int16
	size        int // of each segment
	total       int // bytes in all
	count       int // number of segments
	closed      bool
}

// A plan assigns the packets of a turn to sends. Packets of one queue pair keep their order, while those of others
// may overtake them. So what a thousand connections send in a turn, one data packet and one response each, takes as
// few sends as the packets of one connection.
type plan struct {
	messages []gathering
	next     []int16 // for each packet, the next one of its message; negative: none
	turn     uint32
	open     [udp.MaxTransmit][lookBack]int16 // for each socket, a ring of its latest messages; negative: none
	newest   [udp.MaxTransmit]uint8           // index of the newest message in the ring
}

// planned is the state of a queue pair in a plan.
type planned struct {
	turn uint32
	last int // message that contains its last packet
}

func (p *plan) init(packets int) {
	p.messages = make([]gathering, 0, packets)
	p.next = make([]int16, packets)
}

// make returns the messages in sending order. They are valid until the next call.
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

// find returns the newest message that the packet may join, or -1.
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
		// Only the last segment may be shorter; it completes the message.
		if size == m.size && (m.owner == q || *m.route == q.route) || size < m.size && m.owner == q && alone {
			return at
		}
	}
	return -1
}

// put appends packet i to message at, or to a new one if at is negative.
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
