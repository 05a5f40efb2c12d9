package fio

import (
	"math/bits"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// fio counts latencies in bins of its own, whose middles are the keys of "bins" in
// json+: values below 128 ns exactly, then 64 to a power of two, in 29 groups.
// Longer ones are in the last.
const (
	binBits = 6
	allBins = 29 << binBits
)

func binOf(v uint64) int {
	cut := max(bits.Len64(v)-binBits-1, 0)
	return min(cut<<binBits+int(v>>cut), allBins-1)
}

// binValue is the middle of a bin.
func binValue(i int) uint64 {
	cut := max(i>>binBits-1, 0)
	v := uint64(i-cut<<binBits) << cut
	if cut > 0 {
		v += 1 << (cut - 1)
	}
	return v
}

// bins are the counters of a histogram that are not zero, in order. A bin of fio's
// is four of the histogram's.
func bins(h *bench.Histogram) (all fields) {
	last := -1
	n := uint64(0)
	flush := func() {
		if n > 0 {
			all = append(all, field{decimal(binValue(last)), n})
		}
		n = 0
	}
	h.Each(func(start, _, count uint64) {
		if b := binOf(start); b != last {
			flush()
			last = b
		}
		n += count
	})
	flush()
	return all
}

// A spread is which share of latencies was below some bounds, but not below the ones
// before, in percent. fio prints three, each of which has what the others do not.
type spread struct {
	unit   time.Duration
	bounds []uint64 // in units
	shares []float64
}

var (
	subunits = []uint64{2, 4, 10, 20, 50, 100, 250, 500, 750, 1000}
	millis   = append(subunits[:len(subunits):len(subunits)], 2000)
)

// spreads are those in nanoseconds, microseconds and milliseconds; the last has one
// share more, of what is above its bounds.
func spreads(h *bench.Histogram) [3]spread {
	all := [3]spread{{unit: time.Nanosecond, bounds: subunits}, {unit: time.Microsecond, bounds: subunits}, {unit: time.Millisecond, bounds: millis}}
	for i := range all {
		all[i].shares = make([]float64, len(all[i].bounds))
	}
	all[2].shares = append(all[2].shares, 0)
	if h.Count == 0 {
		return all
	}
	h.Each(func(start, width, count uint64) {
		share := 100 * float64(count) / float64(h.Count)
		middle := start + width/2
		for i := range all {
			for k, bound := range all[i].bounds {
				if middle < bound*uint64(all[i].unit) {
					all[i].shares[k] += share
					return
				}
			}
		}
		all[2].shares[len(millis)] += share
	})
	return all
}
