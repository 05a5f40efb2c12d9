package wire

import (
	"math"
	"testing"
	"testing/quick"
)

func TestPSNWraps(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		diff int32
	}{
		{5, 5, 0}, {6, 5, 1}, {5, 6, -1},
		{0, 0xffffff, 1}, {0xffffff, 0, -1},
		{0x7fffff, 0, 1<<23 - 1}, {0x800000, 0, -1 << 23}, {0, 0x800000, -1 << 23},
	} {
		if got := c.p.Diff(c.q); got != c.diff {
			t.Errorf("%#x.Diff(%#x) = %d, want %d", c.p, c.q, got, c.diff)
		}
		if got := c.p.Before(c.q); got != (c.diff < 0) {
			t.Errorf("%#x.Before(%#x) = %v", c.p, c.q, got)
		}
	}
	if got := PSN(0xffffff).Add(2); got != 1 {
		t.Errorf("0xffffff + 2 = %#x", got)
	}
	if got := PSN(1).Sub(2); got != 0xffffff {
		t.Errorf("PSN 1 - 2 = %#x", got)
	}
	if got := MSN(0xffffff).Add(1); got != 0 {
		t.Errorf("MSN 0xffffff + 1 = %#x", got)
	}
}

func TestPSNDiffUndoesAdd(t *testing.T) {
	f := func(start, n uint32) bool {
		p := PSN(start & mask24)
		d := n & mask24
		want := int32(d)
		if want >= 1<<23 {
			want -= 1 << 24
		}
		return p.Add(n).Diff(p) == want && p.Add(n).Sub(n) == p && MSN(p).Add(n).Diff(MSN(p)) == want
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

func TestInRange(t *testing.T) {
	const huge = math.MaxUint64
	for _, c := range []struct {
		off, n, size uint64
		want         bool
	}{
		{0, 0, 0, true}, {0, 10, 10, true}, {10, 0, 10, true}, {1, 10, 10, false}, {11, 0, 10, false},
		{huge, 1, 10, false}, {1, huge, 10, false}, {huge, huge, huge, false}, {huge, 0, huge, true},
		{huge - 1, 2, 100, false},
	} {
		if got := InRange(c.off, c.n, c.size); got != c.want {
			t.Errorf("InRange(%d, %d, %d) = %v", c.off, c.n, c.size, got)
		}
	}
}
