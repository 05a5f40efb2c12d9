package backend

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Compares InRange with arithmetic that cannot overflow.
func TestInRange(t *testing.T) {
	interesting := []int64{math.MinInt64, -4096, -1, 0, 1, 4095, 4096, 8192, math.MaxInt64 - 4096, math.MaxInt64 - 1, math.MaxInt64}
	for range 30 {
		interesting = append(interesting, int64(rand.Uint64()))
	}
	for _, offset := range interesting {
		for _, length := range interesting {
			for _, size := range interesting {
				end := new(big.Int).Add(big.NewInt(offset), big.NewInt(length))
				want := offset >= 0 && length >= 0 && end.Cmp(big.NewInt(size)) <= 0
				if got := InRange(offset, length, size); got != want {
					t.Errorf("InRange(%d, %d, %d) = %v", offset, length, size, got)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	const size = 1 << 20
	b := make([]byte, 3*4096+512)
	for uintptr(unsafe.Pointer(&b[0]))%512 != 0 {
		b = b[1:]
	}
	aligned, large := b[:4096], b[:3*4096]
	tests := []struct {
		r    Request
		want error
	}{
		{Request{Op: OpRead, Length: 4096, Buf: aligned}, nil},
		{Request{Op: OpWrite, Offset: size - 4096, Length: 4096, Buf: aligned}, nil},
		{Request{Op: OpRead, Offset: size}, nil},
		{Request{Op: OpWriteZeroes, Length: size}, nil},
		{Request{Op: OpFlush, Offset: -1, Length: -1}, nil},
		{Request{Op: OpRead, Length: 4096, Buf: b[1:4097]}, ErrInvalid},
		{Request{Op: OpRead, Length: 4096, Buf: b[:4095]}, ErrInvalid},
		{Request{Op: OpRead, Length: 4096}, ErrInvalid},
		{Request{Op: OpRead, Offset: 512, Length: 4096, Buf: aligned}, ErrInvalid},
		{Request{Op: OpDeallocate, Length: 4097}, ErrInvalid},
		{Request{Op: OpCopy + 1}, ErrInvalid},
		{Request{Op: OpCopy, Length: 4096}, ErrInvalid},
		{Request{Op: OpCompareAndWrite, Length: 4096, Buf: large}, nil},
		{Request{Op: OpCompareAndWrite, Length: 4096, Buf: large[:8192]}, ErrInvalid},
		{Request{Op: OpCompareAndWrite, Length: -4096, Buf: large}, ErrInvalid},
		{Request{Op: OpCompareAndWrite, Length: math.MaxInt64, Buf: large}, ErrInvalid},
		{Request{Op: OpCompareAndWrite, Offset: size, Length: 4096, Buf: large}, ErrOutOfRange},
		{Request{Op: OpWrite, Offset: size, Length: 4096, Buf: aligned}, ErrOutOfRange},
		{Request{Op: OpWriteZeroes, Offset: 4096, Length: size}, ErrOutOfRange},
		{Request{Op: OpWriteZeroes, Offset: math.MaxInt64 - 4095, Length: 8192}, ErrOutOfRange},
		{Request{Op: OpDeallocate, Length: -4096}, ErrOutOfRange},
	}
	info := Info{Size: size, BlockSize: 4096, Alignment: 512, Compare: true}
	for _, tt := range tests {
		if err := info.Check(&tt.r); err != tt.want {
			t.Errorf("%v of %d bytes at %d: %v, want %v", tt.r.Op, tt.r.Length, tt.r.Offset, err, tt.want)
		}
		readOnly := info
		readOnly.ReadOnly = true
		want := tt.want
		if want == nil && tt.r.Op != OpRead && tt.r.Op != OpFlush {
			want = ErrReadOnly
		}
		if err := readOnly.Check(&tt.r); err != want {
			t.Errorf("read-only: %v of %d bytes at %d: %v, want %v", tt.r.Op, tt.r.Length, tt.r.Offset, err, want)
		}
	}
}

func TestResults(t *testing.T) {
	fault := errors.New("fault")
	q := NewResults(3)
	var got [2]Result
	next, taken := uint64(0), uint64(0)
	for range 10 {
		for q.Len() < 3 {
			q.Push(Result{next, fault})
			next++
		}
		n := q.Drain(got[:])
		if n != 2 || q.Len() != 1 {
			t.Fatalf("drained %d, %d left", n, q.Len())
		}
		for _, r := range got {
			if r.Tag != taken || r.Err != fault {
				t.Fatalf("got %+v, want the one with tag %d", r, taken)
			}
			taken++
		}
	}
	if n := q.Drain(got[:]); n != 1 || q.Drain(got[:]) != 0 {
		t.Errorf("drained %d of the last one", n)
	}
	for _, r := range q.ring {
		if r.Err != nil {
			t.Error("a drained result keeps its error from being collected")
		}
	}
}

// Results keep their order when they grow, at whatever position.
func TestResultsGrow(t *testing.T) {
	for start := range 9 {
		q := NewResults(100)
		var got [7]Result
		next, taken := uint64(0), uint64(0)
		push := func(n int) {
			for range n {
				q.Push(Result{Tag: next})
				next++
			}
		}
		drain := func(n int) {
			t.Helper()
			for _, r := range got[:q.Drain(got[:n])] {
				if r.Tag != taken {
					t.Fatalf("got tag %d, want %d", r.Tag, taken)
				}
				taken++
			}
		}
		for range start { // moves the head
			push(1)
			drain(1)
		}
		for q.Len() <= 90 {
			push(10)
			drain(3)
		}
		push(100 - q.Len())
		func() {
			defer func() {
				if recover() == nil {
					t.Error("more results than the depth")
				}
			}()
			q.Push(Result{})
		}()
		for q.Len() > 0 {
			drain(7)
		}
		if taken != next {
			t.Errorf("%d results of %d", taken, next)
		}
	}
}

func TestOpNames(t *testing.T) {
	for op, want := range map[Op]string{OpRead: "read", OpDeallocate: "deallocate", OpCompareAndWrite: "compare and write", OpCopy: "copy", 7: "operation 7", 255: "operation 255"} {
		if got := op.String(); got != want {
			t.Errorf("Op %d is %q, want %q", uint8(op), got, want)
		}
	}
}
