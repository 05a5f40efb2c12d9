package fio

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// HdrHistogram's geometry for latencies up to an hour with three significant digits.
const (
	hgrmSubBucketBits = 11 // 2048 sub-buckets, half of them per power of two
	hgrmBuckets       = 32
)

// An hgrmStep is a nonempty bucket of HdrHistogram.
type hgrmStep struct {
	middle, highest float64
	count, total    uint64 // in this bucket, and up to its end
}

// hgrmSteps sorts latencies into HdrHistogram's buckets, each of which is a quarter as wide as one of the histogram's.
func hgrmSteps(h *bench.Histogram) (steps []hgrmStep) {
	total := uint64(0)
	h.Each(func(start, width, count uint64) {
		v := min(max(start+width/2, h.Min), h.Max)
		unit := uint64(1) << max(bits.Len64(v)-hgrmSubBucketBits, 0)
		lowest := v &^ (unit - 1)
		total += count
		steps = append(steps, hgrmStep{float64(lowest + unit/2), float64(lowest + unit - 1), count, total})
	})
	return steps
}

// HDR prints percentiles like HdrHistogram's tools (.hgrm), in microseconds. There are five percentiles for each
// halving of the distance to 100, each with the next recorded value.
func HDR(w io.Writer, h *bench.Histogram) error {
	const ticks, scale = 5, 1e3
	var b strings.Builder
	b.WriteString(" Value\tPercentile\tTotalCount\t1/(1-Percentile)\n\n")
	row := func(s hgrmStep, percent float64) {
		inverse := fmt.Sprintf("%12.2f", 1/(1-percent/100))
		if percent == 100 {
			inverse = fmt.Sprintf("%12s", "inf")
		}
		fmt.Fprintf(&b, "%12.3f %12f %12d %s\n", s.highest/scale, percent/100, s.total, inverse)
	}
	steps := hgrmSteps(h)
	var last hgrmStep
	next := 0.0 // the next percentile to be printed
	for i, s := range steps {
		last = s
		for reached := 100 * float64(s.total) / float64(h.Count); next <= reached; {
			row(s, next)
			halvings := math.Trunc(math.Log2(100/(100-next))) + 1
			next += 100 / (ticks * math.Exp2(halvings))
			if i == len(steps)-1 {
				break
			}
		}
	}
	row(last, 100)
	mean, deviation := spreadOf(steps, h.Count)
	fmt.Fprintf(&b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n#[Max     = %12.3f, Total count    = %12d]\n#[Buckets = %12d, SubBuckets     = %12d]\n",
		mean/scale, deviation/scale, last.highest/scale, h.Count, hgrmBuckets, 1<<hgrmSubBucketBits)
	_, err := io.WriteString(w, b.String())
	return err
}

// spreadOf returns the mean and the standard deviation, computed from the middles of the buckets.
func spreadOf(steps []hgrmStep, n uint64) (mean, deviation float64) {
	for _, s := range steps {
		mean += float64(s.count) * s.middle / float64(n)
	}
	for _, s := range steps {
		deviation += (s.middle - mean) * (s.middle - mean) * float64(s.count) / float64(n)
	}
	return mean, math.Sqrt(deviation)
}
