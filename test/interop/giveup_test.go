package interop

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// Attributes of the CM's MADs, and where the messages name queue pairs (IBTA volume 1, 12.6.5, 12.6.8 and 12.6.10).
// Offsets count from the end of the MAD header.
const (
	cmRequest    = 0x10 // at 0 the sender's communication ID, at 32 its queue pair
	cmReply      = 0x13 // at 4 the receiver's communication ID, at 12 the sender's queue pair
	cmDisconnect = 0x15 // at 8 the receiver's queue pair

	madHeader = 24
)

// cm reads a 32-bit word of a CM message. ok reports whether the message is of the given kind and the word was
// captured.
func (p seen) cm(attribute uint16, offset int) (word uint32, ok bool) {
	if len(p.mad) < madHeader+offset+4 || binary.BigEndian.Uint16(p.mad[16:]) != attribute {
		return 0, false
	}
	return binary.BigEndian.Uint32(p.mad[madHeader+offset:]), true
}

// A giveUp is the end of one or several connections at one time, and how long before it one of the ends that are
// counted last retransmitted a packet of such a connection.
type giveUp struct {
	at             time.Time
	connections    int
	retransmitted  bool
	retransmission time.Duration // before the end
}

// A connectionSeen is a captured connection. Its arrays are indexed by direction: from the host, from the peer.
type connectionSeen struct {
	highest   [2]uint32
	known     [2]bool
	resent    time.Time
	requested bool // its end was requested
}

// A tracker follows the connections of a capture.
type tracker struct {
	both   bool                          // the peer's ends and retransmissions count too
	to     [2]map[uint32]*connectionSeen // by the queue pair that packets go to: the peer's, the host's
	asking [2]map[uint32]uint32          // queue pairs of connection requests, by communication ID
	ends   []giveUp
}

// giveUps lists the disconnects of the host, or of both ends. Disconnects within a second count as one, since the
// queues of a controller end together.
func giveUps(packets []seen, both bool) []giveUp {
	k := tracker{both: both}
	for i := range k.to {
		k.to[i], k.asking[i] = map[uint32]*connectionSeen{}, map[uint32]uint32{}
	}
	for _, p := range packets {
		from := 0
		if !p.fromHost {
			from = 1
		}
		k.meet(p, from)
		if qpn, ok := p.cm(cmDisconnect, 8); ok && (both || p.fromHost) {
			k.end(p, from, qpn>>8)
		} else if p.isRequest() && (both || p.fromHost) {
			k.request(p, from)
		}
	}
	return k.ends
}

// meet learns which two queue pairs form a connection.
func (k *tracker) meet(p seen, from int) {
	if id, ok := p.cm(cmRequest, 0); ok {
		if qpn, ok := p.cm(cmRequest, 32); ok {
			k.asking[from][id] = qpn >> 8
		}
	}
	id, ok := p.cm(cmReply, 4)
	if !ok {
		return
	}
	asking, ok := k.asking[1-from][id]
	if !ok {
		return // a repeated reply
	}
	delete(k.asking[1-from], id)
	qpn, _ := p.cm(cmReply, 12)
	c := new(connectionSeen)
	k.to[1-from][qpn>>8], k.to[from][asking] = c, c
}

// end handles a disconnect request.
func (k *tracker) end(p seen, from int, qpn uint32) {
	c := k.to[from][qpn]
	if c == nil || c.requested {
		return // a repeated request, or one for a queue pair without packets
	}
	c.requested = true
	if n := len(k.ends); n == 0 || p.at.Sub(k.ends[n-1].at) > time.Second {
		k.ends = append(k.ends, giveUp{at: p.at})
	}
	g := &k.ends[len(k.ends)-1]
	g.connections++
	if since := p.at.Sub(c.resent); !c.resent.IsZero() && (!g.retransmitted || since < g.retransmission) {
		g.retransmitted, g.retransmission = true, since
	}
}

// request handles a packet of the sender's own PSN sequence.
func (k *tracker) request(p seen, from int) {
	c := k.to[from][p.destQP]
	if c == nil {
		c = new(connectionSeen)
		k.to[from][p.destQP] = c
	}
	if ahead := (p.psn - c.highest[from]) & 0xffffff; !c.known[from] || ahead != 0 && ahead < 1<<23 {
		c.highest[from], c.known[from] = (p.psn+p.span)&0xffffff, true
	} else {
		c.resent = p.at
	}
}

// madOf returns a CM message with words at offsets.
func madOf(attribute uint16, words map[int]uint32) []byte {
	mad := make([]byte, madHeader+36)
	binary.BigEndian.PutUint16(mad[16:], attribute)
	for at, word := range words {
		binary.BigEndian.PutUint32(mad[madHeader+at:], word)
	}
	return mad
}

func TestGiveUps(t *testing.T) {
	dreq := func(qpn uint32) []byte { return madOf(cmDisconnect, map[int]uint32{8: qpn << 8}) }
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	packets := []seen{
		{at(0), true, 4, 17, 0xffffff, 0, nil},
		{at(1), true, 4, 17, 0, 0, nil}, // the PSN wraps: no retransmission
		{at(2), true, 4, 18, 7, 0, nil},
		{at(3), true, 0x11, 18, 7, 0, nil}, // an acknowledgement
		{at(10), true, 4, 17, 0, 0, nil},   // a retransmission
		{at(15), true, 0x64, 1, 0, 0, dreq(17)},
		{at(16), true, 0x64, 1, 0, 0, dreq(18)},
		{at(17), true, 0x64, 1, 0, 0, dreq(18)}, // repeated request
		{at(3000), true, 4, 19, 5, 0, nil},
		{at(3001), false, 4, 19, 5, 0, nil}, // not the host's
		{at(3002), true, 0x64, 1, 0, 0, dreq(19)},
	}
	got := giveUps(packets, false)
	want := []giveUp{
		{at: at(15), connections: 2, retransmitted: true, retransmission: 5 * time.Millisecond},
		{at: at(3002), connections: 1},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("giveUps = %+v, want %+v", got, want)
	}
}

// TestGiveUpsOfBoth has a connection of the host's queue pair 30 and the peer's 40. The peer requests the rest of a
// READ again, and then ends the connection.
func TestGiveUpsOfBoth(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	packets := []seen{
		{at(0), true, 0x64, 1, 0, 0, madOf(cmRequest, map[int]uint32{0: 77, 32: 30 << 8})},
		{at(1), false, 0x64, 1, 0, 0, madOf(cmReply, map[int]uint32{4: 77, 12: 40 << 8})},
		{at(2), true, 4, 40, 9, 0, nil},
		{at(3), false, readRequest, 30, 100, 3, nil},
		{at(4), false, readRequest, 30, 104, 3, nil}, // the next one
		{at(5), false, readRequest, 30, 106, 1, nil}, // the second half again
		{at(9), false, 0x64, 1, 0, 0, madOf(cmDisconnect, map[int]uint32{8: 30 << 8})},
		{at(10), true, 0x64, 1, 0, 0, madOf(cmDisconnect, map[int]uint32{8: 40 << 8})}, // the same connection
	}
	want := []giveUp{{at: at(9), connections: 1, retransmitted: true, retransmission: 4 * time.Millisecond}}
	if got := giveUps(packets, true); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("giveUps = %+v, want %+v", got, want)
	}
	if got := giveUps(packets, false); len(got) != 1 || got[0].retransmitted {
		t.Errorf("the host's alone: %+v", got)
	}
}
