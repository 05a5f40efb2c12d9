package softroce

import (
	"encoding/binary"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	// boxPackets is the number of packets gathered before the sockets are called. That is enough for full GSO sends
	// of packets with 4096 or 1024 bytes of payload, 15 or 60, and few enough that the data over which the ICRC was
	// computed is still in the cache when the kernel copies it.
	boxPackets    = 120
	singles       = 32  // messages of the connection manager, in addition
	copyBelow     = 256 // payload bytes that are cheaper to copy than to list as a piece
	scratchPacket = rc.MaxHeader + copyBelow + 3 + wire.ICRCSize
)

// transmitter gathers a turn's packets and turns them into messages (see plan). Runs of equal packets on one route
// become one GSO send, since the cost is per send. Headers, trailers and small payloads are stored in one scratch
// area, where the trailer of one packet and the header of the next form a single piece. Larger payloads are sent from
// where they are.
type transmitter struct {
	port     udp.Port
	icrc     wire.ICRC
	box      *rc.Outbox
	owners   []*queuePair // of each packet in the box
	plan     plan
	segments bool // GSO works

	msgs    []udp.Message
	pieces  [][]byte
	scratch []byte
	stats   *Stats // the shard's
	tap     *tap   // the shard's
	first   int    // index of the first piece of the message being built
	run     int    // start of the part of scratch that is not yet in pieces
}

func (t *transmitter) init(port udp.Port, stats *Stats) {
	t.port, t.stats = port, stats
	t.box = rc.NewOutbox(boxPackets)
	t.owners = make([]*queuePair, 0, boxPackets)
	t.plan.init(boxPackets)
	t.msgs = make([]udp.Message, 0, boxPackets+singles)
	t.pieces = make([][]byte, 0, boxPackets*(rc.MaxPieces+2)+singles)
	t.scratch = make([]byte, 0, boxPackets*scratchPacket)
	t.segments = port.GSO()
}

// add records that new packets in the outbox belong to queue pair q.
func (t *transmitter) add(q *queuePair) {
	for range len(t.box.Pkts) - len(t.owners) {
		t.owners = append(t.owners, q)
	}
	if t.box.Full() {
		t.flush()
	}
}

// encode builds a message and its packets.
func (t *transmitter) encode(m *gathering) {
	t.first, t.run = len(t.pieces), len(t.scratch)
	ahead := m.first
	for range prefetchAhead {
		ahead = t.prefetch(ahead)
	}
	k := uint16(0)
	for i := m.first; i >= 0; i = t.plan.next[i] {
		ahead = t.prefetch(ahead)
		// Linux gives segment k of a GSO send the IPv4 identification k.
		t.packet(t.owners[i], &t.box.Pkts[i], k)
		k++
	}
	t.pieces = append(t.pieces, t.scratch[t.run:])
	r := m.route
	out := udp.Message{To: r.to, Source: r.source, TOS: r.tos, Pieces: t.pieces[t.first:]}
	if m.count > 1 {
		out.SegmentSize = uint16(m.size)
	}
	t.msgs = append(t.msgs, out)
}

// prefetchAhead is how many packets before its ICRC is computed a payload is prefetched: a store of gigabytes is not
// in the cache.
const prefetchAhead = 2

// prefetch prefetches the payload of packet i and returns the next packet of its message.
func (t *transmitter) prefetch(i int16) int16 {
	if i < 0 {
		return i
	}
	if o := &t.box.Pkts[i]; o.Length > copyBelow {
		wire.Prefetch(o.Pieces[0])
	}
	return t.plan.next[i]
}

// packet appends one packet, the k-th of its message.
func (t *transmitter) packet(q *queuePair, o *rc.Out, k uint16) {
	t.stats.ClassesOut[wire.Opcode(o.Header[0]).Class()]++
	crc := t.icrc.Sum(&q.pathOut, k, o.Header[:o.HLen], o.Pieces[:o.NPieces], int(o.Pad))
	if t.tap != nil {
		t.tap.sent(q, o, k, crc)
	}
	t.scratch = append(t.scratch, o.Header[:o.HLen]...)
	if o.Length <= copyBelow {
		for _, b := range o.Pieces[:o.NPieces] {
			t.scratch = append(t.scratch, b...)
		}
	} else {
		t.pieces = append(t.pieces, t.scratch[t.run:])
		t.pieces = append(t.pieces, o.Pieces[:o.NPieces]...)
		t.run = len(t.scratch)
	}
	for range o.Pad {
		t.scratch = append(t.scratch, 0)
	}
	t.scratch = binary.LittleEndian.AppendUint32(t.scratch, crc)
}

// single adds one packet that belongs to no queue pair, in a message of its own from the first transmit socket.
func (t *transmitter) single(to netip.Addr, tos uint8, p *wire.Packet) {
	dst := netip.AddrPortFrom(to, wire.Port)
	path := wire.NewPath(t.port.Sources()[0], dst)
	if len(t.msgs) == singles {
		t.flush()
	}
	t.stats.ClassesOut[p.Opcode.Class()]++
	header := wire.AppendHeaders(nil, p)
	crc := t.icrc.Sum(&path, 0, header, [][]byte{p.Payload}, int(p.Pad))
	b := append(header, p.Payload...)
	b = append(b, make([]byte, p.Pad)...)
	b = binary.LittleEndian.AppendUint32(b, crc)
	if t.tap != nil {
		t.tap.managed(t.port.Sources()[0], dst, tos, b)
	}
	t.pieces = append(t.pieces, b)
	t.msgs = append(t.msgs, udp.Message{To: dst, TOS: tos, Pieces: t.pieces[len(t.pieces)-1:]})
}

// flush hands all gathered packets to the sockets. What they do not accept is lost as in the network, and recovered
// by retransmission.
func (t *transmitter) flush() {
	if len(t.owners) > 0 {
		t.stats.PacketsOut += uint64(len(t.owners))
		for _, m := range t.plan.make(t.owners, t.box.Pkts, t.segments) {
			t.encode(&m)
		}
		clear(t.owners)
		t.owners = t.owners[:0]
	}
	if len(t.msgs) == 0 {
		return
	}
	t.stats.SendDropped += uint64(len(t.msgs) - t.port.Send(t.msgs))
	clear(t.pieces)
	clear(t.plan.messages) // drop references to queue pairs that may be closed
	t.msgs, t.pieces, t.scratch = t.msgs[:0], t.pieces[:0], t.scratch[:0]
	t.box.Reset()
	t.segments = t.port.GSO()
}
