package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// A bitmap is the payload of an ACK to a softroce peer that is sent while requests are held after a gap. Bit i,
// counted from the lowest bit of the first byte, means that the responder holds the request packet with the
// acknowledged PSN plus i+2. The packet in between is the one it waits for. The payload is as many whole words as the
// last bit needs.
type bitmap [maxHeldPerQP / 8]byte

// fill sets the bits of the packets in list, and returns the words that are needed.
func (m *bitmap) fill(expected wire.PSN, list []*held) []byte {
	*m = bitmap{}
	n := 0
	for _, h := range list {
		i := int(h.pkt.PSN.Diff(expected)) - 1
		if i < 0 || i >= len(m)*8 {
			continue // a READ uses many PSNs: farther packets are reported later
		}
		m[i/8] |= 1 << (i % 8)
		n = i/32*4 + 4
	}
	return m[:n]
}

// bitmapFits reports whether the payload of an acknowledgement is a bitmap of packets that were sent.
func (q *QP) bitmapFits(p *wire.Packet) bool {
	n := len(p.Payload)
	if !q.peer.Own || p.Opcode != wire.RCAck || p.AETH.Syndrome.Kind() != wire.AETHAck || n%4 != 0 || n > len(bitmap{}) {
		return false
	}
	for i := n*8 - 1; i >= 0; i-- {
		if p.Payload[i/8]>>(i%8)&1 != 0 {
			return p.PSN.Add(2 + uint32(i)).Before(q.req.next)
		}
	}
	return true
}

// receiveBitmap evaluates the bitmap of an acknowledgement, after acked was advanced.
func (q *QP) receiveBitmap(now time.Duration, p *wire.Packet) {
	if len(p.Payload) == 0 || p.PSN.Add(1) != q.req.acked {
		return
	}
	b := q.scoreboard()
	news := false
	for i := range len(p.Payload) * 8 {
		psn := p.PSN.Add(2 + uint32(i))
		if p.Payload[i/8]>>(i%8)&1 != 0 && b.take(psn) {
			q.rtt.arrived(now, psn)
			news = true
		}
	}
	if !news {
		return
	}
	q.req.probing, q.req.probed = false, false
	if !q.req.waitRNR { // otherwise the wait would count as silence
		q.heard(now)
	}
}
