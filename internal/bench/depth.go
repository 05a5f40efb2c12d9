package bench

import "math/bits"

// Depths counts requests by the number in flight when they were submitted: 1, 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32 to
// 63, and more, as fio does.
type Depths [7]uint64

func (d *Depths) add(depth int, n uint64) {
	d[min(max(bits.Len(uint(depth))-1, 0), len(d)-1)] += n
}

// Batches counts calls by the number of requests that they submitted or completed: none, 1 to 4, 5 to 8, 9 to 16, 17 to
// 32, 33 to 64, and more, as fio does.
type Batches [7]uint64

func (b *Batches) add(size int) {
	i := 0
	if size > 0 {
		i = min(max(bits.Len(uint(size-1))-1, 1), len(b)-1)
	}
	b[i]++
}
