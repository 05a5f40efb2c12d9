package wire

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// message has the methods of all CM messages.
type message interface {
	Parse(*MAD)
	Put(*MAD, uint64)
}

func messageFor(a AttributeID) message {
	switch a {
	case AttrREQ:
		return new(REQ)
	case AttrMRA:
		return new(MRA)
	case AttrREJ:
		return new(REJ)
	case AttrREP:
		return new(REP)
	case AttrRTU:
		return new(RTU)
	case AttrDREQ:
		return new(DREQ)
	case AttrDREP:
		return new(DREP)
	}
	return nil
}

func TestGoldenMADsReemit(t *testing.T) {
	seen := map[AttributeID]int{}
	eachGolden(t, func(t *testing.T, g *golden.Packet) {
		var p Packet
		if Parse(g.Payload, &p) != OK || p.Opcode != UDSendOnly {
			return
		}
		m, h, fault := ParseMAD(p.Payload)
		if fault != OK || p.DestQPN != CMQPN || p.DETH != (DETH{CMQKey, CMQPN}) || p.PKey != DefaultPKey {
			t.Fatalf("%v: %+v", fault, p)
		}
		seen[h.Attribute]++
		msg := messageFor(h.Attribute)
		if msg == nil {
			t.Fatal(h.Attribute)
		}
		msg.Parse(m)
		var out MAD
		for i := range out {
			out[i] = 0xee // Put writes every byte
		}
		msg.Put(&out, h.TID)
		if out != *m {
			t.Errorf("%v: re-emitted\n%x, want\n%x", h.Attribute, out, *m)
		}
		if req, ok := msg.(*REQ); ok {
			wantGoldenREQ(t, g, req)
		}
	})
	for _, a := range []AttributeID{AttrREQ, AttrREP, AttrRTU, AttrREJ, AttrDREQ, AttrDREP} {
		if seen[a] == 0 {
			t.Errorf("no %v in the captures", a)
		}
	}
}

// wantGoldenREQ checks the fields that all recorded requests agree on.
func wantGoldenREQ(t *testing.T, g *golden.Packet, r *REQ) {
	t.Helper()
	if r.LocalGID.Addr() != g.Src.Addr() || r.RemoteGID.Addr() != g.Dst.Addr() ||
		r.LocalGID != GIDFor(g.Src.Addr()) || r.RemoteGID != GIDFor(g.Dst.Addr()) {
		t.Errorf("GIDs %x %x", r.LocalGID, r.RemoteGID)
	}
	if port, ok := r.Service.Port(); !ok || port == 0 || TCPService(port) != r.Service {
		t.Errorf("service %#x", r.Service)
	}
	if r.RemoteTimeout != 20 || r.LocalTimeout != 20 || r.MaxRetries != 15 || r.Transport != TransportRC ||
		r.PKey != DefaultPKey || r.RetryCount != 7 || r.HopLimit != 64 || r.LocalLID != 0xffff || r.RemoteLID != 0xffff ||
		r.GUID != 0x505400fffe000002 || r.PathMTU.Bytes() < 1024 {
		t.Errorf("%+v", r)
	}
	var h IPHeader
	h.Parse(&r.PrivateData)
	src, dst, ok := h.Addrs()
	if !ok || src != g.Src.Addr() || dst != g.Dst.Addr() {
		t.Errorf("IP header %+v", h)
	}
	if h != NewIPHeader(netip.AddrPortFrom(g.Src.Addr(), h.SourcePort), g.Dst.Addr()) {
		t.Errorf("NewIPHeader differs from %+v", h)
	}
	var again [92]byte
	if h.Put(&again); !bytes.Equal(again[:IPHeaderSize], r.PrivateData[:IPHeaderSize]) {
		t.Errorf("IP header re-emitted %x, want %x", again[:IPHeaderSize], r.PrivateData[:IPHeaderSize])
	}
}

// Row 10 of the catalogue of bad input.
func TestParseMADRefuses(t *testing.T) {
	good := func() []byte {
		var m MAD
		m.PutHeader(MADHeader{Attribute: AttrREQ})
		return m[:]
	}
	if _, _, fault := ParseMAD(good()); fault != OK {
		t.Fatal(fault)
	}
	set := func(at int, v byte) []byte { b := good(); b[at] = v; return b }
	for name, b := range map[string][]byte{
		"nothing": nil, "one byte": {1}, "255 bytes": good()[:255], "257 bytes": append(good(), 0),
		"all ones": bytes.Repeat([]byte{0xff}, MADSize), "all zero": make([]byte, MADSize),
		"base version": set(0, 2), "class": set(1, 3), "class version 1": set(2, 1), "method Get": set(3, 1),
		"response bit": set(3, 0x83),
	} {
		if m, _, fault := ParseMAD(b); fault != BadMAD || m != nil {
			t.Errorf("%s: %v", name, fault)
		}
	}
}

func TestMADHeader(t *testing.T) {
	want := MADHeader{Status: 0x0102, TID: 0x030405060708090a, Attribute: AttrDREP, Modifier: 0x0b0c0d0e}
	var m MAD
	m.PutHeader(want)
	if _, got, fault := ParseMAD(m[:]); fault != OK || got != want {
		t.Errorf("%v: %+v, want %+v", fault, got, want)
	}
}

func TestServiceID(t *testing.T) {
	if got := TCPService(4420); got != 0x0000000001061144 {
		t.Errorf("service of port 4420 is %#x", got)
	}
	for _, s := range []ServiceID{0, 0x01110000 | 4420, 1<<63 | 0x01061144} {
		if port, ok := s.Port(); ok {
			t.Errorf("service %#x has port %d", s, port)
		}
	}
}

func TestMTU(t *testing.T) {
	for n, want := range map[int]MTU{0: 0, 255: 0, 256: 1, 511: 1, 1024: 3, 1404: 3, 4095: 4, 4096: 5, 9000: 5} {
		if got := MTUFor(n); got != want {
			t.Errorf("MTUFor(%d) = %d, want %d", n, got, want)
		}
	}
	for m, want := range map[MTU]int{0: 0, 1: 256, 5: 4096, 6: 0, 15: 0} {
		if got := m.Bytes(); got != want {
			t.Errorf("MTU code %d is %d bytes, want %d", m, got, want)
		}
	}
}

func TestIPHeaderVersions(t *testing.T) {
	for _, h := range []IPHeader{{Version: 1, IPVersion: 4}, {Version: 0x10, IPVersion: 6}, {IPVersion: 0}, {IPVersion: 7}} {
		if _, _, ok := h.Addrs(); ok {
			t.Errorf("%+v is accepted", h)
		}
	}
}

func TestMADAllocatesNothing(t *testing.T) {
	var m, out MAD
	m.PutHeader(MADHeader{Attribute: AttrREQ})
	if n := testing.AllocsPerRun(100, func() {
		in, h, _ := ParseMAD(m[:])
		var r REQ
		r.Parse(in)
		r.Put(&out, h.TID)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkREQ(b *testing.B) {
	var m MAD
	m.PutHeader(MADHeader{Attribute: AttrREQ})
	for b.Loop() {
		var r REQ
		r.Parse(&m)
		r.Put(&m, 1)
	}
}

// fuzzMessage checks that a message survives encoding, and that its encoding is unique.
func fuzzMessage(f *testing.F, a AttributeID) {
	for _, fill := range []byte{0x00, 0x5a, 0xff} {
		f.Add(bytes.Repeat([]byte{fill}, MADSize-MADHeaderSize))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, once, twice MAD
		copy(m[MADHeaderSize:], b)
		first, second := messageFor(a), messageFor(a)
		first.Parse(&m)
		first.Put(&once, 7)
		got, h, fault := ParseMAD(once[:])
		if fault != OK || h != (MADHeader{TID: 7, Attribute: a}) {
			t.Fatalf("%v: %+v", fault, h)
		}
		second.Parse(got)
		second.Put(&twice, 7)
		if once != twice {
			t.Fatalf("encoded\n%x, then\n%x", once, twice)
		}
	})
}

func FuzzREQ(f *testing.F)  { fuzzMessage(f, AttrREQ) }
func FuzzMRA(f *testing.F)  { fuzzMessage(f, AttrMRA) }
func FuzzREJ(f *testing.F)  { fuzzMessage(f, AttrREJ) }
func FuzzREP(f *testing.F)  { fuzzMessage(f, AttrREP) }
func FuzzRTU(f *testing.F)  { fuzzMessage(f, AttrRTU) }
func FuzzDREQ(f *testing.F) { fuzzMessage(f, AttrDREQ) }
func FuzzDREP(f *testing.F) { fuzzMessage(f, AttrDREP) }

func FuzzParseMAD(f *testing.F) {
	var m MAD
	m.PutHeader(MADHeader{Attribute: AttrREP})
	f.Add(m[:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, h, fault := ParseMAD(b)
		if fault != OK {
			return
		}
		if h.Attribute.String() == "" {
			t.Fatal("an attribute has no name")
		}
		if msg := messageFor(h.Attribute); msg != nil {
			msg.Parse(m)
		}
	})
}

// Every bit of every message is preserved, except reserved ones and those of unsupported transport services.
func TestMessagesKeepEveryBit(t *testing.T) {
	for a, reserved := range map[AttributeID]map[int]byte{
		AttrREQ: {4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff, 24: 0xff, 25: 0xff, 26: 0xff, 27: 0xff,
			36: 0xff, 37: 0xff, 38: 0xff, 40: 0xff, 41: 0xff, 42: 0xff, // EE contexts
			90: 0x0f, 91: 0xc0, 94: 0x07, 95: 0x07},
		AttrREP:  {15: 0xff, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff, 23: 0xff, 27: 0x0f},
		AttrRTU:  {},
		AttrREJ:  {8: 0x3f, 9: 0x01},
		AttrMRA:  {8: 0x3f, 9: 0x07},
		AttrDREQ: {11: 0xff},
		AttrDREP: {},
	} {
		for bit := range 8 * (MADSize - MADHeaderSize) {
			var in, out, want MAD
			in.data()[bit/8] = 1 << (bit % 8)
			want = in
			want.data()[bit/8] &^= reserved[bit/8]
			want.PutHeader(MADHeader{Attribute: a})
			msg := messageFor(a)
			msg.Parse(&in)
			if msg.Put(&out, 0); out != want {
				t.Errorf("%v: bit %d of byte %d is not as it was", a, bit%8, bit/8)
			}
		}
	}
}
