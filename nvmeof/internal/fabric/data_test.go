package fabric

import (
	"math"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const dnr = capsule.StatusDNR

// sglOf returns a descriptor with the given last byte.
func sglOf(address, word uint64, typ byte) capsule.SGL {
	b := make([]byte, capsule.SGLSize)
	for i := range 8 {
		b[i], b[8+i] = byte(address>>(8*i)), byte(word>>(8*i))
	}
	b[15] = typ
	s, _ := capsule.DecodeSGL(b)
	return s
}

func command(op capsule.IOOpcode, s capsule.SGL) capsule.Command {
	return capsule.Command{Opcode: capsule.Opcode(op), Flags: capsule.FlagsSGL, SGL: s}
}

// TestInterpretRefuses is the catalogue of malformed SGLs, rows 47 to 56.
func TestInterpretRefuses(t *testing.T) {
	limits := dataLimits{inCapsule: 8192, total: 1 << 20, descriptors: 16}
	noLists := limits
	noLists.descriptors = 1
	list := func(ds ...capsule.SGL) []byte {
		b := make([]byte, 8192)
		for i, d := range ds {
			d.Encode(b[i*capsule.SGLSize:])
		}
		return b
	}
	keyed := func(n uint32) capsule.SGL { return capsule.KeyedSGL(4096, n, 7, false) }
	page := make([]byte, 4096)
	cases := []struct {
		row      int
		name     string
		op       capsule.IOOpcode
		sgl      capsule.SGL
		received []byte
		limits   dataLimits
		want     capsule.Status
	}{
		{47, "offset beyond the in-capsule size", capsule.IOWrite, capsule.InCapsuleSGL(8193, 0), page, limits, capsule.StatusSGLOffset},
		{48, "offset + length wraps", capsule.IOWrite, capsule.InCapsuleSGL(math.MaxUint64, 2), page, limits, capsule.StatusSGLOffset},
		{48, "length of 4 GiB", capsule.IOWrite, capsule.InCapsuleSGL(0, math.MaxUint32), page, limits, capsule.StatusSGLDataLength},
		{48, "length of 4 GiB at the end", capsule.IOWrite, capsule.InCapsuleSGL(8192, math.MaxUint32), page, limits, capsule.StatusSGLDataLength},
		{49, "end past the in-capsule size", capsule.IOWrite, capsule.InCapsuleSGL(8000, 193), make([]byte, 8192), limits, capsule.StatusSGLDataLength},
		{49, "end past what was received", capsule.IOWrite, capsule.InCapsuleSGL(0, 4097), page, limits, capsule.StatusSGLDataLength},
		{49, "nothing was received", capsule.IOWrite, capsule.InCapsuleSGL(0, 1), nil, limits, capsule.StatusSGLDataLength},
		{51, "keyed, 16 MiB - 1", capsule.IORead, keyed(capsule.MaxKeyedLength), nil, limits, capsule.StatusInvalidField},
		{51, "keyed, one more than allowed", capsule.IORead, keyed(1<<20 + 1), nil, limits, capsule.StatusInvalidField},
		{52, "bit bucket", capsule.IORead, sglOf(0, 512, 0x10), nil, limits, capsule.StatusSGLTypeInvalid},
		{52, "segment", capsule.IORead, sglOf(0, 512, 0x21), nil, limits, capsule.StatusSGLTypeInvalid},
		{52, "transport", capsule.IORead, sglOf(0, 512, 0x5a), nil, limits, capsule.StatusSGLTypeInvalid},
		{52, "vendor", capsule.IORead, sglOf(0, 512, 0xf0), nil, limits, capsule.StatusSGLTypeInvalid},
		{52, "keyed with a reserved subtype", capsule.IORead, sglOf(0, 512, 0x43), nil, limits, capsule.StatusInvalidField},
		{52, "data block by address", capsule.IORead, sglOf(0, 512, 0x00), nil, limits, capsule.StatusInvalidField},
		{54, "list outside the capsule", capsule.IORead, capsule.LastSegmentSGL(4080, 32), page, limits, capsule.StatusSGLSegmentInvalid},
		{54, "list at an offset that wraps", capsule.IORead, capsule.LastSegmentSGL(math.MaxUint64-15, 32), page, limits, capsule.StatusSGLSegmentInvalid},
		{54, "list of 17", capsule.IORead, capsule.LastSegmentSGL(0, 17*16), page, limits, capsule.StatusSGLCountInvalid},
		{54, "list of 4 GiB", capsule.IORead, capsule.LastSegmentSGL(0, math.MaxUint32&^15), page, limits, capsule.StatusSGLCountInvalid},
		{54, "list of 24 bytes", capsule.IORead, capsule.LastSegmentSGL(0, 24), page, limits, capsule.StatusSGLSegmentInvalid},
		{54, "list of nothing", capsule.IORead, capsule.LastSegmentSGL(0, 0), page, limits, capsule.StatusSGLSegmentInvalid},
		{54, "list where none is supported", capsule.IORead, capsule.LastSegmentSGL(0, 32), page, noLists, capsule.StatusSGLTypeInvalid},
		{54, "list in a list", capsule.IORead, capsule.LastSegmentSGL(0, 32), list(keyed(1), capsule.LastSegmentSGL(0, 16)), limits, capsule.StatusSGLTypeInvalid},
		{54, "in-capsule data in a list", capsule.IOWrite, capsule.LastSegmentSGL(0, 16), list(capsule.InCapsuleSGL(64, 8)), limits, capsule.StatusSGLTypeInvalid},
		{54, "bit bucket in a list", capsule.IORead, capsule.LastSegmentSGL(0, 16), list(sglOf(0, 8, 0x10)), limits, capsule.StatusSGLTypeInvalid},
		{54, "list of more than allowed in all", capsule.IORead, capsule.LastSegmentSGL(0, 32), list(keyed(1<<20), keyed(1)), limits, capsule.StatusInvalidField},
		{56, "in-capsule data of a Read", capsule.IORead, capsule.InCapsuleSGL(0, 512), page, limits, capsule.StatusInvalidField},
		{56, "in-capsule data of a Flush", capsule.IOFlush, capsule.InCapsuleSGL(0, 512), page, limits, capsule.StatusInvalidField},
	}
	for _, c := range cases {
		d := data{length: 99, inCapsule: page, remotes: make([]remote, 1, 16), invalidate: true}
		cmd := command(c.op, c.sgl)
		if got := d.interpret(&cmd, c.received, c.limits); got != c.want|dnr {
			t.Errorf("row %d, %s: %v, want %v", c.row, c.name, got, c.want|dnr)
		}
		if d.length != 0 || d.inCapsule != nil || len(d.remotes) != 0 || d.invalidate {
			t.Errorf("row %d, %s: data %+v of an earlier command is left", c.row, c.name, d)
		}
	}
}

// TestInterpretPSDT is row 55, on every kind of command.
func TestInterpretPSDT(t *testing.T) {
	for _, flags := range []capsule.CommandFlags{0x00, 0x80, 0xc0} {
		for _, op := range []capsule.Opcode{0x7f, 0x01, 0x02} {
			d := data{}
			cmd := capsule.Command{Opcode: op, Flags: flags, SGL: capsule.KeyedSGL(0, 0, 0, false)}
			if got := d.interpret(&cmd, nil, dataLimits{}); got != capsule.StatusInvalidField|dnr {
				t.Errorf("opcode %#x with flags %#x: %v, want %v", op, flags, got, capsule.StatusInvalidField|dnr)
			}
		}
	}
}

func TestInterpretAccepts(t *testing.T) {
	limits := dataLimits{inCapsule: 8192, total: 1 << 20, descriptors: 16}
	received := make([]byte, 5000)
	for i := range received {
		received[i] = byte(i * 7)
	}
	var ds data
	cmd := command(capsule.IOWrite, capsule.InCapsuleSGL(100, 4900)) // row 50: an offset, across a page
	if s := ds.interpret(&cmd, received, limits); !s.OK() {
		t.Fatal(s)
	}
	if len(ds.inCapsule) != 4900 || &ds.inCapsule[0] != &received[100] || cap(ds.inCapsule) != 4900 || ds.length != 4900 {
		t.Errorf("in-capsule data of %d bytes, capacity %d", len(ds.inCapsule), cap(ds.inCapsule))
	}

	cmd = command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
	if s := ds.interpret(&cmd, nil, limits); !s.OK() || ds.length != 0 || ds.inCapsule != nil {
		t.Errorf("no data: %v, %+v", s, ds)
	}

	cmd = command(capsule.IORead, capsule.KeyedSGL(0xfffffffffffff000, 1<<20, 0xfedcba98, true))
	if s := ds.interpret(&cmd, nil, limits); !s.OK() {
		t.Fatal(s)
	}
	want := remote{0xfffffffffffff000, 1 << 20, 0xfedcba98}
	if len(ds.remotes) != 1 || ds.remotes[0] != want || !ds.invalidate || ds.key != 0xfedcba98 || ds.length != 1<<20 {
		t.Errorf("keyed data %+v", ds)
	}

	// An invalidation without data, as of a Write Zeroes from a host that requests it.
	cmd = command(capsule.IOWriteZeroes, capsule.KeyedSGL(0, 0, 5, true))
	if s := ds.interpret(&cmd, nil, limits); !s.OK() || ds.length != 0 || len(ds.remotes) != 0 || !ds.invalidate || ds.key != 5 {
		t.Errorf("invalidation without data: %v, %+v", s, ds)
	}
}

func TestInterpretList(t *testing.T) {
	limits := dataLimits{inCapsule: 8192, total: 1 << 20, descriptors: 16}
	received := make([]byte, 512)
	capsule.KeyedSGL(1<<40, 4096, 1, false).Encode(received[32:])
	capsule.KeyedSGL(0, 0, 0, false).Encode(received[48:]) // nothing: skipped
	capsule.KeyedSGL(1<<41, 512, 2, true).Encode(received[64:])
	ds := data{remotes: make([]remote, 0, 16)}
	cmd := command(capsule.IORead, capsule.LastSegmentSGL(32, 48))
	if s := ds.interpret(&cmd, received, limits); !s.OK() {
		t.Fatal(s)
	}
	want := []remote{{1 << 40, 4096, 1}, {1 << 41, 512, 2}}
	if len(ds.remotes) != 2 || ds.remotes[0] != want[0] || ds.remotes[1] != want[1] {
		t.Errorf("list gives %+v, want %+v", ds.remotes, want)
	}
	if ds.length != 4608 || !ds.invalidate || ds.key != rdmatransport.RKey(2) {
		t.Errorf("list gives %d bytes, invalidation %v of %d", ds.length, ds.invalidate, ds.key)
	}
}

// FuzzInterpret: whatever the SGL, the data is within what was received, no limit is exceeded, and a rejection leaves
// no data.
func FuzzInterpret(f *testing.F) {
	f.Add(uint64(0), uint64(512)|1<<56, []byte("data"), byte(1))
	f.Add(uint64(math.MaxUint64), uint64(0x40)<<56|4096, []byte{}, byte(2))
	f.Add(uint64(0), uint64(0x31)<<56|32, make([]byte, 64), byte(2))
	f.Fuzz(func(t *testing.T, address, word uint64, received []byte, op byte) {
		l := dataLimits{inCapsule: 4096, total: 65536, descriptors: 4}
		received = received[:min(len(received), l.inCapsule)]
		cmd := command(capsule.IOOpcode(op), sglOf(address, word, byte(word>>56)))
		d := data{remotes: make([]remote, 0, l.descriptors)}
		s := d.interpret(&cmd, received, l)
		if !s.OK() && (d.length != 0 || d.inCapsule != nil || len(d.remotes) != 0 || !s.DNR()) {
			t.Fatalf("refused with %v, but left %+v", s, d)
		}
		if len(d.inCapsule) > 0 && (uint64(len(d.inCapsule)) > uint64(len(received))-address || &d.inCapsule[0] != &received[address]) {
			t.Fatal("in-capsule data lies outside of what was received")
		}
		sum := len(d.inCapsule)
		for _, r := range d.remotes {
			sum += r.length
			if r.length <= 0 {
				t.Fatalf("a descriptor of %d bytes", r.length)
			}
		}
		if sum != d.length || d.length > l.total || len(d.remotes) > l.descriptors {
			t.Fatalf("%d bytes in %d descriptors, length %d", sum, len(d.remotes), d.length)
		}
	})
}
