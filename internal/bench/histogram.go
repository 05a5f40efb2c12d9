package bench

import (
	"math"
	"math/bits"
	"time"
)

// A Histogram counts times in nanoseconds. Below 512 ns each value has its own counter. Above, each power of two is
// divided into 256 bins of equal width, so a value is known to 0.2 %. Recording neither allocates nor computes
// logarithms.
type Histogram struct {
	Count    uint64
	Sum      uint64 // exact
	Min, Max uint64 // exact; Min is meaningless without times
	counts   [histogramBins]uint64
}

const (
	binBits = 8 // a power of two has 1<<binBits bins
	// topBits is the size of the longest distinguishable time: 18 minutes.
	topBits       = 40
	histogramBins = (topBits - binBits + 1) << binBits
)

// binOf returns the bin of a value: the first 2<<binBits bins are exact.
func binOf(v uint64) int {
	group := max(bits.Len64(v)-binBits-1, 0)
	return min(group<<binBits+int(v>>group), histogramBins-1)
}

// binStart returns the least value of a bin, and its width.
func binStart(i int) (start, width uint64) {
	group := max(i>>binBits-1, 0)
	return uint64(i-group<<binBits) << group, 1 << group
}

// Record counts a time. Negative times count as zero.
func (h *Histogram) Record(d time.Duration) {
	v := uint64(max(d, 0))
	if v < h.Min || h.Count == 0 {
		h.Min = v
	}
	h.Max = max(h.Max, v)
	h.Count++
	h.Sum += v
	h.counts[binOf(v)]++
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(o *Histogram) {
	if o == nil || o.Count == 0 {
		return
	}
	if o.Min < h.Min || h.Count == 0 {
		h.Min = o.Min
	}
	h.Max = max(h.Max, o.Max)
	h.Count += o.Count
	h.Sum += o.Sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Each calls f for each non-empty bin, shortest times first. The times in a bin are at least start and less than
// start+width.
func (h *Histogram) Each(f func(start, width, count uint64)) {
	for i, n := range h.counts {
		if n > 0 {
			start, width := binStart(i)
			f(start, width, n)
		}
	}
}

// Percentile returns the time that p percent of the times do not exceed, or 0 if there are none.
func (h *Histogram) Percentile(p float64) time.Duration {
	need := uint64(math.Ceil(p / 100 * float64(h.Count)))
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= need {
			start, width := binStart(i)
			return time.Duration(min(max(start+width/2, h.Min), h.Max))
		}
	}
	return 0
}

// Mean returns the exact average in nanoseconds.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Count)
}

// StdDev returns the standard deviation in nanoseconds.
func (h *Histogram) StdDev() float64 {
	if h.Count == 0 {
		return 0
	}
	mean, sum := h.Mean(), 0.0
	h.Each(func(start, width, count uint64) {
		middle := float64(start) + float64(width-1)/2
		sum += float64(count) * (middle - mean) * (middle - mean)
	})
	return math.Sqrt(sum / float64(h.Count))
}
