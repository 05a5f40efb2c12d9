package latency

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Schema is the schema of the native histogram, which has 1<<Schema bounds for each power of two.
const Schema = 2

// The native bounds are the powers of 2^(1/4) seconds with these exponents. Durations up to the first one are in the
// zero bucket, those above the last one in the bucket of the next exponent.
const (
	First = -20 << Schema // 0.95 µs
	Last  = 6 << Schema   // 64 s
)

// Classic returns the bounds of the classic histogram.
func Classic() []time.Duration { return slices.Clone(table.classic) }

// Bounds returns the upper bounds of all buckets except the last, which has none.
func Bounds() []time.Duration {
	out := make([]time.Duration, buckets-1)
	for i := range out {
		out[i] = time.Duration(table.upper[i])
	}
	return out
}

const (
	classicBounds = 19
	nativeBounds  = Last - First + 1
	bothBounds    = 3                                             // 500 ms, 1 s and 2 s
	buckets       = nativeBounds + classicBounds - bothBounds + 1 // the last has no bound
)

// A bounds describes the buckets.
type bounds struct {
	classic []time.Duration
	upper   [buckets]int64 // nanoseconds; a bucket counts durations above the previous bound and up to its own
	native  [buckets]int   // exponent of the native bucket to which a bucket belongs
	first   [keys]uint8    // the lowest bucket of durations with a key
}

// table is constant.
var table = makeBounds()

func makeBounds() *bounds {
	b := &bounds{}
	for unit := 10 * time.Microsecond; unit <= time.Second; unit *= 10 {
		b.classic = append(b.classic, unit, 2*unit, 5*unit)
	}
	b.classic = append(b.classic, 10*time.Second)
	var upper []int64
	for _, c := range b.classic {
		upper = append(upper, int64(c))
	}
	for e := First; e <= Last; e++ {
		upper = append(upper, nativeBound(e))
	}
	upper = append(upper, math.MaxInt64)
	slices.Sort(upper)
	b.upper = [buckets]int64(slices.Compact(upper))
	e := First
	for i, u := range b.upper {
		for e <= Last && nativeBound(e) < u {
			e++
		}
		b.native[i] = e
	}
	i := 0
	for k := range b.first {
		for b.upper[i] < lowest(k) {
			i++
		}
		b.first[k] = uint8(i)
	}
	return b
}

// nativeBound returns a bound in nanoseconds, rounded down, since durations are integers.
func nativeBound(exponent int) int64 {
	return int64(math.Exp2(float64(exponent)/(1<<Schema)) * 1e9)
}

// A key is the four highest bits of a duration together with their position, so that durations with the same key are in
// few buckets.
const (
	keyBits = 3
	keys    = 64 << keyBits
)

func keyOf(ns int64) int {
	n := bits.Len64(uint64(ns))
	if n <= keyBits {
		return int(ns)
	}
	return (n-keyBits)<<keyBits | int(ns>>(n-keyBits-1))&(1<<keyBits-1)
}

// lowest returns the lowest duration with a key.
func lowest(key int) int64 {
	n := key >> keyBits
	if n == 0 {
		return int64(key)
	}
	if n > 63-keyBits {
		return math.MaxInt64
	}
	return int64(1<<keyBits|key&(1<<keyBits-1)) << (n - 1)
}

// bucketOf returns the bucket of a non-negative duration in nanoseconds.
func bucketOf(ns int64) int {
	i := int(table.first[keyOf(ns)])
	for table.upper[i] < ns {
		i++
	}
	return i
}

// A Histogram counts durations. The zero value is empty.
type Histogram struct {
	sum    int64 // nanoseconds
	counts [buckets]uint64
}

// Observe counts a duration in nanoseconds. A negative duration counts as zero.
func (h *Histogram) Observe(ns int64) {
	ns = max(ns, 0)
	h.sum += ns
	h.counts[bucketOf(ns)]++
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(o *Histogram) {
	h.sum += o.sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Sub subtracts the counts of another histogram, which must be an earlier copy of h.
func (h *Histogram) Sub(o *Histogram) {
	h.sum -= o.sum
	for i, n := range o.counts {
		h.counts[i] -= n
	}
}

// Count returns the number of durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the sum of the durations.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum) }

// Cumulative returns, for each bound of Classic, how many durations do not exceed it.
func (h *Histogram) Cumulative() []uint64 {
	out := make([]uint64, 0, classicBounds)
	var n uint64
	for i, u := range table.upper {
		n += h.counts[i]
		if len(out) < classicBounds && u == int64(table.classic[len(out)]) {
			out = append(out, n)
		}
	}
	return out
}

// Native yields the exponent and count of each non-empty native bucket, in ascending order. Durations up to 2^(First/4)
// seconds are in the bucket of First.
func (h *Histogram) Native(yield func(exponent int, n uint64) bool) {
	for i := 0; i < buckets; {
		var n uint64
		e := table.native[i]
		for ; i < buckets && table.native[i] == e; i++ {
			n += h.counts[i]
		}
		if n > 0 && !yield(e, n) {
			return
		}
	}
}

// Buckets yields the index and count of each non-empty bucket, in ascending order. A bucket holds the durations that
// exceed the previous bound and do not exceed the bound with its index in Bounds.
func (h *Histogram) Buckets(yield func(i int, n uint64) bool) {
	for i, n := range h.counts {
		if n > 0 && !yield(i, n) {
			return
		}
	}
}

// Quantile estimates the duration that a share q of the durations, from 0 to 1, do not exceed. It assumes that the
// durations in a bucket are evenly distributed. It returns 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := max(q, 0) * float64(total)
	var below float64
	var from int64
	for i, n := range h.counts {
		to := table.upper[i]
		if to == math.MaxInt64 {
			break
		}
		if n > 0 && below+float64(n) >= rank {
			return time.Duration(float64(from) + float64(to-from)*(rank-below)/float64(n))
		}
		below += float64(n)
		from = to
	}
	return time.Duration(from)
}
