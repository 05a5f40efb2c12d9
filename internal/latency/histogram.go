package latency

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Schema is that of the native histogram: it has 1<<Schema bounds for each power of two.
const Schema = 2

// The native bounds are the powers of 2^(1/4) seconds with these exponents. What is not above the
// first is in the zero bucket, what is above the last in that of the next exponent.
const (
	First = -20 << Schema // 0.95 µs
	Last  = 6 << Schema   // 64 s
)

// Classic are the bounds of the classic histogram.
func Classic() []time.Duration { return slices.Clone(table.classic) }

// Bounds are the upper bounds of all buckets but the last, which has none.
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

// A bounds is what there is to know of the buckets.
type bounds struct {
	classic []time.Duration
	upper   [buckets]int64 // nanoseconds; a bucket has what is above the bound before, and not above its own
	native  [buckets]int   // exponent of the native bucket that a bucket is a part of
	first   [keys]uint8    // the lowest bucket of the durations with a key
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

// nativeBound is a bound in nanoseconds, rounded down, since durations are whole.
func nativeBound(exponent int) int64 {
	return int64(math.Exp2(float64(exponent)/(1<<Schema)) * 1e9)
}

// A key is the four highest bits of a duration, with their place, so that few buckets have a
// duration of the same key.
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

// lowest is the lowest duration of a key.
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

// bucketOf is the bucket of a duration in nanoseconds, which is not negative.
func bucketOf(ns int64) int {
	i := int(table.first[keyOf(ns)])
	for table.upper[i] < ns {
		i++
	}
	return i
}

// A Histogram counts durations. The zero value has none.
type Histogram struct {
	sum    int64 // nanoseconds
	counts [buckets]uint64
}

// Observe counts a duration in nanoseconds. One that is negative counts as none.
func (h *Histogram) Observe(ns int64) {
	ns = max(ns, 0)
	h.sum += ns
	h.counts[bucketOf(ns)]++
}

// Add adds what another one has counted.
func (h *Histogram) Add(o *Histogram) {
	h.sum += o.sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Sub takes away what another one has counted, which is the same one at an earlier time.
func (h *Histogram) Sub(o *Histogram) {
	h.sum -= o.sum
	for i, n := range o.counts {
		h.counts[i] -= n
	}
}

// Count is how many durations there are.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum is their sum.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum) }

// Cumulative is how many are not above each bound of Classic.
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

// Native yields the exponent of each native bucket that has any, ascending, with its count. What
// is not above 2^(First/4) seconds is in the bucket of First.
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

// Buckets yields the index of each bucket that has any, ascending, and how many it has. A bucket
// has what is not above the bound of its index in Bounds, and above the one before.
func (h *Histogram) Buckets(yield func(i int, n uint64) bool) {
	for i, n := range h.counts {
		if n > 0 && !yield(i, n) {
			return
		}
	}
}

// Quantile estimates the duration that a share q of all, from 0 to 1, is not above: as if those
// of a bucket lay at equal distances. It is 0 where there are none.
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
