package latency

import "sync/atomic"

// A Shared counts durations like a [Histogram], for any number of goroutines.
type Shared struct {
	sum    atomic.Int64 // nanoseconds
	counts [buckets]atomic.Uint64
}

// Observe counts a duration in nanoseconds. A negative duration counts as zero.
func (h *Shared) Observe(ns int64) {
	ns = max(ns, 0)
	h.sum.Add(ns)
	h.counts[bucketOf(ns)].Add(1)
}

// AddTo adds the counts to a histogram. A duration that is observed concurrently may be in the counts and not in the
// sum, or the other way round.
func (h *Shared) AddTo(to *Histogram) {
	to.sum += h.sum.Load()
	for i := range h.counts {
		to.counts[i] += h.counts[i].Load()
	}
}
