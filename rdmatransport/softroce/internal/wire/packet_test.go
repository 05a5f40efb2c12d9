package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// sample is a packet with every field of its opcode's headers set.
func sample(op Opcode) Packet {
	f := op.Flags()
	p := Packet{Opcode: op, Solicited: true, MigReq: true, AckReq: true, FECN: true, BECN: true,
		PKey: 0x8001, DestQPN: 0xabcdef, PSN: 0x123456, Payload: []byte{}}
	if f&FlagHasDETH != 0 {
		p.DETH = DETH{QKey: 0x80010000, SrcQPN: 0x010203}
	}
	if f&FlagHasRETH != 0 {
		p.RETH = RETH{VA: 0x0102030405060708, RKey: 0x090a0b0c, DMALen: 0x0d0e0f10}
	}
	if f&FlagHasAtomicETH != 0 {
		p.AtomicETH = AtomicETH{VA: 0x1112131415161718, RKey: 0x191a1b1c, SwapAdd: 0x2122232425262728, Compare: 0x3132333435363738}
	}
	if f&FlagHasAETH != 0 {
		p.AETH = AETH{Syndrome: SyndromeAck, MSN: 0x313233}
	}
	if f&FlagHasAtomicAckETH != 0 {
		p.AtomicAck = 0x4142434445464748
	}
	if f&FlagHasImm != 0 {
		p.Imm = 0x51525354
	}
	if f&FlagHasInv != 0 {
		p.InvKey = 0x61626364
	}
	if f&FlagPayload != 0 {
		p.Payload, p.Pad = []byte("hello"), 3
	}
	return p
}

func encode(p *Packet) []byte {
	b := append(AppendHeaders(nil, p), p.Payload...)
	return append(b, make([]byte, int(p.Pad)+ICRCSize)...)
}

func TestEveryOpcodeRoundTrips(t *testing.T) {
	for i := range 256 {
		if !known(i) {
			continue
		}
		want := sample(Opcode(i))
		b := encode(&want)
		if got := len(AppendHeaders(nil, &want)); got != want.Opcode.HeaderSize() || got > MaxHeaderSize {
			t.Errorf("%v: %d header bytes", want.Opcode, got)
		}
		var got Packet
		if f := Parse(b, &got); f != OK || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v\n%+v, want\n%+v", want.Opcode, f, got, want)
		}
		for n := range b[:len(b)-len(want.Payload)-int(want.Pad)] {
			if f := Parse(b[:n], &got); f != ShortPacket {
				t.Errorf("%v cut to %d bytes: %v", want.Opcode, n, f)
			}
		}
	}
}

func TestBTHBytes(t *testing.T) {
	p := Packet{Opcode: RCAck, Pad: 2, PKey: 0xffff, DestQPN: 0x000011, PSN: 0xabcdef, AckReq: true,
		AETH: AETH{SyndromeInvalidRequest, 7}}
	want := []byte{0x11, 0x20, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0xab, 0xcd, 0xef, 0x61, 0, 0, 7}
	if got := AppendHeaders(nil, &p); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// Rows 12, 13, 16 and 28 of the catalogue of bad input.
func TestParseRefuses(t *testing.T) {
	send := func(change func(b []byte) []byte) []byte {
		p := Packet{Opcode: RCSendOnly, Payload: []byte("12345678")}
		return change(encode(&p))
	}
	set := func(at int, v byte) []byte {
		return send(func(b []byte) []byte { b[at] = v; return b })
	}
	for _, c := range []struct {
		name string
		in   []byte
		want Fault
	}{
		{"nothing", nil, ShortPacket},
		{"BTH without ICRC", make([]byte, 15), ShortPacket},
		{"WRITE without its RETH", append([]byte{byte(RCWriteOnly)}, make([]byte, 27)...), ShortPacket},
		{"version 1", set(1, 0x01), BadVersion},
		{"version 15", set(1, 0x0f), BadVersion},
		{"opcode 0x15", set(0, 0x15), UnknownOpcode},
		{"opcode 0x18", set(0, 0x18), UnknownOpcode},
		{"UC SEND only", set(0, 0x24), UnknownOpcode},
		{"RD SEND only", set(0, 0x44), UnknownOpcode},
		{"all ones", bytes.Repeat([]byte{0xff}, 64), BadVersion},
		{"pad 3 without payload", []byte{byte(RCSendOnly), 0x30, 15: 0}, BadPad},
		{"length not a multiple of 4", send(func(b []byte) []byte { return b[:len(b)-1] }), BadPad},
		{"pad 1 and payload 8", send(func(b []byte) []byte { b[1] = 0x10; return append(b, 0) }), BadPad},
		{"reserved bits", send(func(b []byte) []byte { b[4], b[8] = 0x3f, 0x7f; return b }), OK},
		{"CNP", append([]byte{byte(CNP)}, make([]byte, 31)...), OK},
	} {
		p := Packet{AckReq: true, Imm: 9}
		if got := Parse(c.in, &p); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if p.Imm != 0 {
			t.Errorf("%s: a field of the packet before is left", c.name)
		}
	}
}

func TestUnknownOpcodeKeepsBTH(t *testing.T) {
	b := append([]byte{0x1f, 0, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 42}, make([]byte, 4)...)
	var p Packet
	if f := Parse(b, &p); f != UnknownOpcode || p.DestQPN != 17 || p.PSN != 42 || !p.Opcode.IsRC() {
		t.Errorf("%v, %+v", f, p)
	}
}

func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range NumFaults + 1 {
		if f.String() == "" || seen[f.String()] {
			t.Errorf("fault %d is named %q", f, f)
		}
		seen[f.String()] = true
	}
}

func FuzzParse(f *testing.F) {
	for i := range 256 {
		if known(i) {
			p := sample(Opcode(i))
			f.Add(encode(&p))
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again Packet
		if Parse(b, &p) != OK {
			return
		}
		if !fieldsInRange(&p) {
			t.Fatalf("a field is wider than on the wire: %+v", p)
		}
		if f := Parse(encode(&p), &again); f != OK || !reflect.DeepEqual(p, again) {
			t.Fatalf("%v: %+v, want %+v", f, again, p)
		}
	})
}

func fieldsInRange(p *Packet) bool {
	const limit = rdmatransport.QPN(1 << 24)
	return p.DestQPN < limit && p.DETH.SrcQPN < limit && p.PSN < 1<<24 && p.AETH.MSN < 1<<24 && p.Pad < 4
}

func TestPacketAllocatesNothing(t *testing.T) {
	in := sample(RCWriteOnly)
	b := encode(&in)
	var p Packet
	out := make([]byte, 0, MaxHeaderSize)
	if n := testing.AllocsPerRun(100, func() {
		if Parse(b, &p) != OK {
			t.Fatal("refused")
		}
		out = AppendHeaders(out[:0], &p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	in := sample(RCWriteOnly)
	buf := encode(&in)
	var p Packet
	for b.Loop() {
		Parse(buf, &p)
	}
}

func BenchmarkAppendHeaders(b *testing.B) {
	p := sample(RCWriteOnly)
	out := make([]byte, 0, MaxHeaderSize)
	for b.Loop() {
		out = AppendHeaders(out[:0], &p)
	}
}
