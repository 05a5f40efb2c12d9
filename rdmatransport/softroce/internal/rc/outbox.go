package rc

import (
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// MaxPieces is the maximum number of pieces of memory in one packet's payload.
const MaxPieces = 4

// MaxHeader is the maximum length of the headers on a reliable connection: BTH and AtomicETH (IBTA 9.2, 9.4).
const MaxHeader = 40

// Out is one packet to send: headers, payload pieces, then Pad zero bytes. The ICRC is added when the datagram is
// built.
type Out struct {
	Header  [MaxHeader]byte
	HLen    uint8
	Pad     uint8
	NPieces uint8
	Length  uint16 // payload bytes
	Pieces  [MaxPieces][]byte
}

// Outbox collects the packets of one turn, of one queue pair after the other. The memory that pieces refer to must
// not change until the packets have been handed to the network.
type Outbox struct {
	Pkts []Out // in order of sending
	from int   // first packet of the queue pair that transmits now
}

// NewOutbox returns an outbox with room for n packets.
func NewOutbox(n int) *Outbox { return &Outbox{Pkts: make([]Out, 0, n)} }

// Full reports whether no further packet fits.
func (o *Outbox) Full() bool { return len(o.Pkts) == cap(o.Pkts) }

// equal reports whether the queue pair that transmits now has packets in the outbox, and the last is as long as the
// first.
func (o *Outbox) equal() bool {
	if len(o.Pkts) == o.from {
		return false
	}
	return o.Pkts[len(o.Pkts)-1].size() == o.Pkts[o.from].size()
}

func (p *Out) size() int { return int(p.HLen) + int(p.Length) + int(p.Pad) }

// Reset empties the outbox and drops its references to memory.
func (o *Outbox) Reset() {
	clear(o.Pkts)
	o.Pkts, o.from = o.Pkts[:0], 0
}

// start appends a packet without payload. Its headers are added by finish.
func (o *Outbox) start() *Out {
	o.Pkts = o.Pkts[:len(o.Pkts)+1]
	p := &o.Pkts[len(o.Pkts)-1]
	p.NPieces, p.Length, p.Pad = 0, 0, 0
	return p
}

func (p *Out) add(b []byte) {
	if len(b) == 0 {
		return
	}
	p.Pieces[p.NPieces] = b
	p.NPieces++
	p.Length += uint16(len(b))
}

// finish writes the headers. It derives the pad count from the payload.
func (p *Out) finish(h *wire.Packet) {
	p.Pad = uint8(-int(p.Length) & 3)
	h.Pad = p.Pad
	p.HLen = uint8(len(wire.AppendHeaders(p.Header[:0], h)))
}
