package packet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// each calls f for every packet of the recorded traffic between two Linux kernels.
func each(t *testing.T, f func(t *testing.T, g *golden.Packet, p *Packet)) {
	t.Helper()
	for _, name := range golden.Names("") {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range packets {
			p, err := Parse(packets[i].Payload)
			if err != nil {
				t.Fatalf("%s: packet %d: %v", name, packets[i].Number, err)
			}
			if f(t, &packets[i], &p); t.Failed() {
				t.Fatalf("%s: packet %d", name, packets[i].Number)
			}
		}
	}
}

// TestPackets: a parsed packet is encoded again as Linux sent it, with the same ICRC.
func TestPackets(t *testing.T) {
	seen := map[Opcode]int{}
	each(t, func(t *testing.T, g *golden.Packet, p *Packet) {
		seen[p.Opcode]++
		b := p.Append(nil)
		b = binary.LittleEndian.AppendUint32(b, ICRC(g.Src, g.Dst, g.ID, b))
		if !bytes.Equal(b, g.Payload) {
			t.Errorf("written as\n%x, Linux has\n%x", b, g.Payload)
		}
	})
	for _, op := range []Opcode{SendOnly, SendOnlyInv, WriteFirst, WriteOnly, ReadRequest, ReadResponseOnly, Acknowledge, DatagramSend, CompareSwap, FetchAdd} {
		if seen[op] == 0 {
			t.Errorf("no packet with opcode %#02x", op)
		}
	}
}

// TestMessages: a new message whose fields are set to the parsed values equals the message that Linux sent, except for
// its private data and alternate path.
func TestMessages(t *testing.T) {
	seen := map[Attribute]int{}
	each(t, func(t *testing.T, g *golden.Packet, p *Packet) {
		if p.Opcode != DatagramSend {
			return
		}
		m := MAD(p.Payload)
		seen[m.Attribute()]++
		made := NewMAD(m.Attribute())
		fields := map[Attribute][]Field{
			REQ: Request, REP: Reply, RTU: {LocalID, RemoteID}, DREP: {LocalID, RemoteID}, DREQ: {LocalID, RemoteID, DreqQPN},
			REJ: {LocalID, RemoteID, RejMessage, RejInfoLength, RejReason},
		}[m.Attribute()]
		if fields == nil {
			t.Fatalf("message %#x", m.Attribute())
		}
		for _, f := range append(fields, Transaction) {
			made.Set(f, m.Get(f))
		}
		copy(made.Private(), m.Private())
		if m.Attribute() == REJ { // the additional information
			copy(made[24+12:24+84], m[24+12:24+84])
		}
		if made != m {
			t.Errorf("made\n%x, Linux has\n%x", made, m)
		}
		if again := m.Datagram(); m.Attribute() != REQ && again.QKey != p.QKey || again.QPN != p.QPN || again.SrcQPN != p.SrcQPN {
			t.Errorf("sent as %+v, by Linux as %+v", again, p)
		}
		if m.Attribute() == REQ {
			if again := m; again != readdressed(&again, g) {
				t.Errorf("addresses written as\n%x, by Linux as\n%x", again, m)
			}
			if port := m.Get(ReqService) &^ 0xffff; port != ServiceID(0) {
				t.Errorf("service ID %#x", m.Get(ReqService))
			}
		}
	})
	for _, a := range []Attribute{REQ, REP, RTU, REJ, DREQ, DREP} {
		if seen[a] == 0 {
			t.Errorf("no message %#x", a)
		}
	}
}

func readdressed(m *MAD, g *golden.Packet) MAD {
	made, port := *m, binary.BigEndian.Uint16(m.Private()[2:])
	clear(made[24+56 : 24+88])
	clear(made.Private()[:IPHeaderSize])
	made.SetAddresses(netip.AddrPortFrom(g.Src.Addr(), port), g.Dst.Addr())
	return made
}

// TestFields: fields do not overlap and keep every value.
func TestFields(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, fields := range [][]Field{append(Request, Header...), append(Reply, Header...)} {
		var m MAD
		want := make([]uint64, len(fields))
		for i, f := range fields {
			want[i] = rng.Uint64() >> (64 - f.Bits)
			m.Set(f, want[i])
		}
		for i, f := range fields {
			if got := m.Get(f); got != want[i] {
				t.Errorf("%s is %#x, set to %#x", f.Name, got, want[i])
			}
		}
	}
}

// TestCutShort: Parse returns an error, and does not panic, for every truncated packet.
func TestCutShort(t *testing.T) {
	each(t, func(t *testing.T, g *golden.Packet, _ *Packet) {
		for n := range min(len(g.Payload), 64) {
			if p, err := Parse(g.Payload[:n]); err == nil && len(p.Payload) > n {
				t.Errorf("%d bytes of payload in %d", len(p.Payload), n)
			}
		}
	})
}
