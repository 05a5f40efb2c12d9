package rc

import (
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestSplitWrite: a long relaxed WRITE to a softroce peer is sent as one WRITE per packet, all of the same length.
func TestSplitWrite(t *testing.T) {
	p := newPair(t, pairConfig{mtu: 1024, own: true})
	const size = 5 * 1024
	out := p.a.keys.register(pattern(size, 3), 0)
	in := p.b.keys.register(make([]byte, size), rdmatransport.AccessRemoteWrite)
	p.post(rdmatransport.SendWR{Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled | rdmatransport.FlagRelaxed,
		RemoteAddr: in.iova, RKey: rdmatransport.RKey(in.key), SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
	p.run(time.Second)
	if len(p.a.sent) != 5 {
		t.Errorf("%d packets", len(p.a.sent))
	}
	for _, s := range p.a.sent {
		if s.pkt.Opcode != wire.RCWriteOnly || s.pkt.RETH.DMALen != 1024 {
			t.Errorf("%v of %d bytes", s.pkt.Opcode, s.pkt.RETH.DMALen)
		}
	}
	if string(in.mem) != string(out.mem) || len(p.a.poll()) != 1 {
		t.Error("the data did not arrive, or no completion")
	}
}

// TestEqualParts: a SEND of a few packets is divided equally towards a softroce peer, and into full packets and a
// rest towards others.
func TestEqualParts(t *testing.T) {
	for _, c := range []struct {
		own    bool
		length int
		want   []int
	}{
		{true, 1024, []int{1024}},
		{true, 1025, []int{516, 509}},
		{true, 4 * 1024, []int{1024, 1024, 1024, 1024}},
		{true, 4160, []int{832, 832, 832, 832, 832}},
		{true, 16*1024 + 1, append(slices.Repeat([]int{1024}, 16), 1)},
		{false, 1088, []int{1024, 64}},
	} {
		p := newPair(t, pairConfig{mtu: 1024, own: c.own})
		out := p.a.keys.register(pattern(c.length, 3), 0)
		in := p.b.keys.register(make([]byte, c.length), rdmatransport.AccessLocalWrite)
		p.recv(0, in)
		p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
		p.run(time.Second)
		var got []int
		for _, s := range p.a.sent {
			got = append(got, len(s.pkt.Payload))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d bytes, own kind %v: packets of %v bytes, want %v", c.length, c.own, got, c.want)
		}
		if string(in.mem) != string(out.mem) || len(p.a.poll()) != 1 {
			t.Errorf("%d bytes: the data did not arrive, or no completion", c.length)
		}
	}
}

// TestEqualResponses: all packets of a READ response to a softroce peer have the same headers.
func TestEqualResponses(t *testing.T) {
	p := newPair(t, pairConfig{mtu: 1024, own: true})
	const size = 5 * 1024
	from := p.b.keys.register(pattern(size, 3), rdmatransport.AccessRemoteRead)
	to := p.a.keys.register(make([]byte, size), rdmatransport.AccessLocalWrite)
	p.post(rdmatransport.SendWR{Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, RemoteAddr: from.iova,
		RKey: rdmatransport.RKey(from.key), SGL: []rdmatransport.SGE{{Buf: to.mem, LKey: rdmatransport.LKey(to.key)}}})
	p.run(time.Second)
	if len(p.b.sent) != 5 {
		t.Errorf("%d packets", len(p.b.sent))
	}
	for _, s := range p.b.sent {
		if s.pkt.Opcode != wire.RCReadResponseOnly {
			t.Errorf("%v", s.pkt.Opcode)
		}
	}
	if string(from.mem) != string(to.mem) || len(p.a.poll()) != 1 {
		t.Error("the data did not arrive, or no completion")
	}
}
