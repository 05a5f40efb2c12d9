package operation

import "testing"

// TestBlocksOfLimits: commands are cut at whole blocks, whatever the limit.
func TestBlocksOfLimits(t *testing.T) {
	for _, c := range []struct {
		shift uint8
		limit int
		want  int64
	}{
		{9, 1 << 20, 1 << 20}, {12, 1 << 20, 1 << 20}, {12, 5000, 4096}, {16, 12288, 65536},
		{16, 200_000, 196_608}, {9, 1 << 40, 65535 << 9},
	} {
		n := &Namespace{Shift: c.shift}
		if got := n.blocks(c.limit); got != c.want {
			t.Errorf("limit %d in blocks of %d: %d, want %d", c.limit, 1<<c.shift, got, c.want)
		}
	}
}
