package fio

import (
	"math/bits"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// fio counts latencies in bins of its own, whose middles are the keys of "bins" in json+. Values below 128 ns have a
// bin each; above, each power of two has 64 bins. There are 29 groups of 64; longer latencies are in the last bin.
const (
	binBits = 6
	allBins = 29 << binBits
)

func binOf(v uint64) int {
	cut := max(bits.Len64(v)-binBits-1, 0)
	return min(cut<<binBits+int(v>>cut), allBins-1)
}

// binValue returns the middle of a bin.
func binValue(i int) uint64 {
	cut := max(i>>binBits-1, 0)
	v := uint64(i-cut<<binBits) << cut
	if cut > 0 {
		v += 1 << (cut - 1)
	}
	return v
}

// bins returns the nonzero counters of a histogram in ascending order. A bin of fio contains four buckets of the
// histogram.
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

// A spread holds the percentage of latencies below each bound and not below the one before. fio prints three spreads,
// which do not overlap.
type spread struct {
	unit   time.Duration
	bounds []uint64 // in units
	shares []float64
}

var (
	subunits = []uint64{2, 4, 10, 20, 50, 100, 250, 500, 750, 1000}
	millis   = append(subunits[:len(subunits):len(subunits)], 2000)
)

// spreads returns the spreads in nanoseconds, microseconds and milliseconds. The last has one more share for the
// latencies above its bounds.
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
