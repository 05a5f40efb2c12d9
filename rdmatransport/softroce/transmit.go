package softroce

import (
	"encoding/binary"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/wire"
)

const (
	// boxPackets is how many packets one engine emits at a time: full GSO sends of
	// packets with 4096 or 1024 bytes of payload, 15 or 60.
	boxPackets = 120
	// burstPackets is how many are gathered before the sockets are called: few
	// enough that the kernel finds in the cache what the ICRC was computed over.
	burstPackets  = boxPackets
	copyBelow     = 256   // payload bytes that are cheaper copied than listed
	maxSegments   = 64    // of one GSO send (UDP_MAX_SEGMENTS of older kernels)
	maxSuper      = 65000 // bytes of one GSO send
	scratchPacket = rc.MaxHeader + copyBelow + 3 + wire.ICRCSize
)

// transmitter gathers a turn's packets into messages: runs of equal packets of
// one queue pair become one GSO send. Headers, trailers and small payloads lie
// in one scratch area, where the trailer of one packet and the header of the
// next are a single piece; larger payloads are sent from where they are.
type transmitter struct {
	port     udp.Port
	icrc     wire.ICRC
	box      *rc.Outbox
	segments bool // GSO works

	msgs    []udp.Message
	pieces  [][]byte
	scratch []byte
	packets int
	lost    *uint64 // packets the sockets did not take

	// The message being built.
	first   int // its first piece
	run     int // start of the scratch part not yet in pieces
	size    int // of its segments
	total   int // bytes
	count   int // segments
	smaller bool
}

func (t *transmitter) init(port udp.Port, lost *uint64) {
	t.port, t.lost = port, lost
	t.box = rc.NewOutbox(boxPackets)
	t.msgs = make([]udp.Message, 0, burstPackets)
	t.pieces = make([][]byte, 0, burstPackets*(rc.MaxPieces+2))
	t.scratch = make([]byte, 0, burstPackets*scratchPacket)
	t.segments = port.GSO()
}

// add encodes the packets in the outbox, all of queue pair q.
func (t *transmitter) add(q *queuePair) {
	for i := range t.box.Pkts {
		if t.packets == burstPackets {
			t.closeMessage(q)
			t.flush()
		}
		t.packet(q, &t.box.Pkts[i])
	}
	t.closeMessage(q)
	t.box.Reset()
}

// packet appends one packet to the open message, or opens the next.
func (t *transmitter) packet(q *queuePair, o *rc.Out) {
	size := int(o.HLen) + int(o.Length) + int(o.Pad) + wire.ICRCSize
	if t.count > 0 && (!t.segments || t.smaller || size > t.size || t.count == maxSegments || t.total+size > maxSuper) {
		t.closeMessage(q)
	}
	if t.count == 0 {
		t.first, t.run, t.size = len(t.pieces), len(t.scratch), size
	}
	// Linux gives segment k of a GSO send the IPv4 identification k.
	crc := t.icrc.Sum(&q.pathOut, uint16(t.count), o.Header[:o.HLen], o.Pieces[:o.NPieces], int(o.Pad))
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
	t.smaller = size < t.size
	t.total += size
	t.count++
	t.packets++
}

func (t *transmitter) closeMessage(q *queuePair) {
	if t.count == 0 {
		return
	}
	t.pieces = append(t.pieces, t.scratch[t.run:])
	m := udp.Message{To: q.to, Source: q.source, TOS: q.tos, Pieces: t.pieces[t.first:]}
	if t.count > 1 {
		m.SegmentSize = uint16(t.size)
	}
	t.msgs = append(t.msgs, m)
	t.count, t.total, t.smaller = 0, 0, false
}

// single adds one packet that belongs to no queue pair, in a message of its own
// from the first transmit socket.
func (t *transmitter) single(to netip.Addr, tos uint8, p *wire.Packet) {
	dst := netip.AddrPortFrom(to, wire.Port)
	path := wire.NewPath(t.port.Sources()[0], dst)
	if t.packets == burstPackets {
		t.flush()
	}
	header := wire.AppendHeaders(nil, p)
	crc := t.icrc.Sum(&path, 0, header, [][]byte{p.Payload}, int(p.Pad))
	b := append(header, p.Payload...)
	b = append(b, make([]byte, p.Pad)...)
	t.pieces = append(t.pieces, binary.LittleEndian.AppendUint32(b, crc))
	t.msgs = append(t.msgs, udp.Message{To: dst, TOS: tos, Pieces: t.pieces[len(t.pieces)-1:]})
	t.packets++
}

// flush hands everything gathered to the sockets. What they do not take is lost
// like a packet on the way, and found by retransmission.
func (t *transmitter) flush() {
	if len(t.msgs) == 0 {
		return
	}
	*t.lost += uint64(len(t.msgs) - t.port.Send(t.msgs))
	clear(t.pieces)
	t.msgs, t.pieces, t.scratch, t.packets = t.msgs[:0], t.pieces[:0], t.scratch[:0], 0
	t.segments = t.port.GSO()
}
