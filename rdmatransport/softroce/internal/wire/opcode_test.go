package wire

import (
	"math/bits"
	"strings"
	"testing"
)

// known are the opcodes of IBTA table 35 that the table must hold.
func known(op int) bool {
	return op <= 0x14 || op == 0x16 || op == 0x17 || op == 0x64 || op == 0x65 || op == 0x81
}

func TestOpcodeTable(t *testing.T) {
	for i := range 256 {
		op := Opcode(i)
		f := op.Flags()
		if !known(i) {
			if f != 0 || op.HeaderSize() != 0 || !strings.HasPrefix(op.String(), "reserved") {
				t.Errorf("%#02x: flags %#x, %d bytes, %q; want unknown", i, f, op.HeaderSize(), op)
			}
			continue
		}
		if got, want := op.HeaderSize(), headerSize(f); got != want {
			t.Errorf("%v: %d header bytes, but its headers take %d", op, got, want)
		}
		kinds := FlagSend | FlagWrite | FlagReadRequest | FlagReadResponse | FlagAck | FlagAtomic | FlagAtomicAck | FlagCNP
		if bits.OnesCount32(uint32(f&kinds)) != 1 {
			t.Errorf("%v is not exactly one operation", op)
		}
		if op == CNP {
			continue
		}
		if bits.OnesCount32(uint32(f&(FlagRequest|FlagResponse))) != 1 {
			t.Errorf("%v is not either request or response", op)
		}
		checkNameFits(t, op)
	}
}

func headerSize(f OpFlags) int {
	n := BTHSize
	for _, h := range []struct {
		flag OpFlags
		size int
	}{
		{FlagHasDETH, DETHSize}, {FlagHasRETH, RETHSize}, {FlagHasAtomicETH, AtomicETHSize}, {FlagHasAETH, AETHSize},
		{FlagHasAtomicAckETH, AtomicAckETHSize}, {FlagHasImm, ImmSize}, {FlagHasInv, InvSize},
	} {
		if f&h.flag != 0 {
			n += h.size
		}
	}
	return n
}

// checkNameFits compares the flags with the words of the opcode's name.
func checkNameFits(t *testing.T, op Opcode) {
	t.Helper()
	name, f := op.String(), op.Flags()
	has := func(word string) bool { return strings.Contains(name, word) }
	for _, c := range []struct {
		flag OpFlags
		want bool
	}{
		{FlagSend, has("SEND")},
		{FlagWrite, has("WRITE")},
		{FlagReadRequest, has("READ Request")},
		{FlagReadResponse, has("READ Response")},
		{FlagResponse, has("Response") || has("Acknowledge")},
		{FlagHasImm, has("Immediate")},
		{FlagHasInv, has("Invalidate")},
		{FlagStart, !has("Middle") && !has("Last")},
		{FlagEnd, !has("Middle") && !has("First")},
		{FlagHasDETH, has("UD ")},
		{FlagHasAETH, has("Acknowledge") || has("READ Response") && !has("Middle")},
		{FlagHasRETH, has("WRITE First") || has("WRITE Only") || has("READ Request")},
		{FlagConsumesRecv, has("SEND Last") || has("SEND Only") || has("WRITE") && has("Immediate")},
		{FlagPayload, has("SEND") || has("WRITE") || has("READ Response")},
	} {
		if got := f&c.flag != 0; got != c.want {
			t.Errorf("%v: flag %#x is %v", op, c.flag, got)
		}
	}
	if op.IsRC() != has("RC") || op.IsUD() != has("UD") {
		t.Errorf("%v: IsRC %v, IsUD %v", op, op.IsRC(), op.IsUD())
	}
}

// TestClasses: all known opcodes have a class, and no others.
func TestClasses(t *testing.T) {
	for i := range 256 {
		if op := Opcode(i); (op.Class() != ClassUnknown) != known(i) || op.Class().String() == "" {
			t.Errorf("%v is of class %v", op, op.Class())
		}
	}
}

// BenchmarkClass measures the cost of counting a packet in its class.
func BenchmarkClass(b *testing.B) {
	var counts [NumClasses]uint64
	ops := [4]Opcode{RCSendOnly, RCWriteFirst, RCAck, RCWriteLast}
	i := 0
	for b.Loop() {
		counts[ops[i&3].Class()]++
		i++
	}
	if counts[ClassUnknown] > 0 {
		b.Error(counts)
	}
}
