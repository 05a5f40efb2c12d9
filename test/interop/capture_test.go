package interop

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// startCapture records the link until the returned function stops it; that
// gives the file. snap is how many bytes of each packet are kept.
func (l *lab) startCapture(t *testing.T, name string, snap int) (stop func() string) {
	t.Helper()
	e := env{"action": "start", "file": name + ".pcap", "snap": snap}
	l.onHost(t, 30*time.Second, "capture", e)
	return func() string {
		t.Helper()
		e["action"] = "stop"
		l.onHost(t, time.Minute, "capture", e)
		return filepath.Join(l.hostDir, name+".pcap")
	}
}

// A seen packet is the head of a RoCEv2 packet over IPv4 in a capture.
type seen struct {
	at       time.Time
	fromHost bool
	opcode   byte   // of the BTH
	destQP   uint32 // 24 bits
	psn      uint32 // 24 bits
	mad      []byte // of a packet to QP 1: from the MAD header on, as far as kept
}

// readCapture reads what tcpdump wrote: little-endian pcap of Ethernet.
func readCapture(path string) ([]seen, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) < 24 || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 || binary.LittleEndian.Uint32(b[20:]) != 1 {
		return nil, fmt.Errorf("%s: not a little-endian pcap of Ethernet", path)
	}
	var out []seen
	for b = b[24:]; len(b) >= 16; {
		at := time.Unix(int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint32(b[4:]))*1000)
		size := int(binary.LittleEndian.Uint32(b[8:]))
		if len(b) < 16+size {
			break // tcpdump was stopped in the middle of a record
		}
		if p, ok := parseFrame(b[16 : 16+size]); ok {
			p.at = at
			out = append(out, p)
		}
		b = b[16+size:]
	}
	return out, nil
}

// parseFrame reads Ethernet, IPv4 without options, UDP to port 4791 and the BTH.
func parseFrame(f []byte) (seen, bool) {
	const bth = 14 + 20 + 8
	if len(f) < bth+12 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || f[23] != 17 {
		return seen{}, false
	}
	p := seen{
		fromHost: f[29] == 2, // 10.9.0.2
		opcode:   f[bth],
		destQP:   binary.BigEndian.Uint32(f[bth+4:]) & 0xffffff,
		psn:      binary.BigEndian.Uint32(f[bth+8:]) & 0xffffff,
	}
	if p.destQP == 1 && len(f) > bth+12+8 {
		p.mad = f[bth+12+8:]
	}
	return p, true
}

// disconnectRequest returns the queue pair, of the receiver, that a CM DREQ
// wants to end (IBTA volume 1, 12.6.10).
func (p seen) disconnectRequest() (qpn uint32, ok bool) {
	if len(p.mad) < 24+12 || binary.BigEndian.Uint16(p.mad[16:]) != 0x15 {
		return 0, false
	}
	return binary.BigEndian.Uint32(p.mad[24+8:]) >> 8, true
}

// isRequest reports whether the packet takes part in the sender's own PSN
// sequence: everything but READ responses and acknowledgements (0x0d to 0x12).
func (p seen) isRequest() bool {
	return p.destQP != 1 && p.opcode < 0x20 && (p.opcode < 0x0d || p.opcode > 0x12)
}

// A giveUp is the host's orderly end of one connection, and how long before it
// the host last sent a packet of that connection, or of another that it ended at
// the same time, once more.
type giveUp struct {
	at             time.Time
	connections    int
	retransmitted  bool
	retransmission time.Duration // before the end
}

// giveUps lists the host's disconnects, those within a second taken as one,
// since a controller's queues go together.
func giveUps(packets []seen) []giveUp {
	type queuePair struct {
		highest   uint32
		known     bool
		resent    time.Time
		requested bool
	}
	qps := map[uint32]*queuePair{}
	var out []giveUp
	for _, p := range packets {
		if !p.fromHost {
			continue
		}
		if qpn, ok := p.disconnectRequest(); ok {
			q := qps[qpn]
			if q == nil || q.requested {
				continue // a repeated DREQ, or one for a queue pair that carried nothing
			}
			q.requested = true
			if n := len(out); n == 0 || p.at.Sub(out[n-1].at) > time.Second {
				out = append(out, giveUp{at: p.at})
			}
			g := &out[len(out)-1]
			g.connections++
			if since := p.at.Sub(q.resent); !q.resent.IsZero() && (!g.retransmitted || since < g.retransmission) {
				g.retransmitted, g.retransmission = true, since
			}
			continue
		}
		if !p.isRequest() {
			continue
		}
		q := qps[p.destQP]
		if q == nil {
			q = new(queuePair)
			qps[p.destQP] = q
		}
		if ahead := (p.psn - q.highest) & 0xffffff; !q.known || ahead != 0 && ahead < 1<<23 {
			q.highest, q.known = p.psn, true
		} else {
			q.resent = p.at
		}
	}
	return out
}

func TestGiveUps(t *testing.T) {
	dreq := func(qpn uint32) []byte {
		mad := make([]byte, 24+12)
		mad[17] = 0x15
		binary.BigEndian.PutUint32(mad[24+8:], qpn<<8)
		return mad
	}
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	packets := []seen{
		{at(0), true, 4, 17, 0xffffff, nil},
		{at(1), true, 4, 17, 0, nil}, // the PSN wraps: not again
		{at(2), true, 4, 18, 7, nil},
		{at(3), true, 0x11, 18, 7, nil}, // an acknowledgement
		{at(10), true, 4, 17, 0, nil},   // again
		{at(15), true, 0x64, 1, 0, dreq(17)},
		{at(16), true, 0x64, 1, 0, dreq(18)},
		{at(17), true, 0x64, 1, 0, dreq(18)}, // repeated
		{at(3000), true, 4, 19, 5, nil},
		{at(3001), false, 4, 19, 5, nil}, // not the host's
		{at(3002), true, 0x64, 1, 0, dreq(19)},
	}
	got := giveUps(packets)
	want := []giveUp{
		{at: at(15), connections: 2, retransmitted: true, retransmission: 5 * time.Millisecond},
		{at: at(3002), connections: 1},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("giveUps = %+v, want %+v", got, want)
	}
}
