package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBins: every value is in a bin that begins at it or slightly below, bins follow one another without a gap, and
// none is wider than a 256th of its values.
func TestBins(t *testing.T) {
	next := uint64(0)
	for i := range histogramBins {
		start, width := binStart(i)
		if start != next || binOf(start) != i || i < histogramBins-1 && binOf(start+width-1) != i {
			t.Fatalf("bin %d: %d to %d, after %d", i, start, start+width, next)
		}
		if width > 1 && width > start>>binBits {
			t.Fatalf("bin %d of %d nanoseconds is %d wide", i, start, width)
		}
		next = start + width
	}
	if next != 1<<topBits || binOf(math.MaxUint64) != histogramBins-1 {
		t.Errorf("the last bin ends at %d", next)
	}
}

func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []time.Duration
	sum, squares := 0.0, 0.0
	for i := range 20000 {
		d := time.Duration(math.Exp(6 + 12*random.Float64()))
		all = append(all, d)
		sum += float64(d)
		if i%2 == 0 {
			h.Record(d)
		} else {
			other.Record(d)
		}
	}
	h.Add(&other)
	slices.Sort(all)
	mean := sum / float64(len(all))
	for _, d := range all {
		squares += (float64(d) - mean) * (float64(d) - mean)
	}
	if h.Count != uint64(len(all)) || h.Min != uint64(all[0]) || h.Max != uint64(all[len(all)-1]) || math.Abs(h.Mean()-mean) > 1e-6*mean {
		t.Errorf("%d values from %d to %d, mean %v, want %v", h.Count, h.Min, h.Max, h.Mean(), mean)
	}
	if want := math.Sqrt(squares / float64(len(all))); math.Abs(h.StdDev()-want) > 0.002*want {
		t.Errorf("standard deviation %v, want %v", h.StdDev(), want)
	}
	for _, p := range []float64{0.01, 1, 50, 99, 99.9, 99.99, 100} {
		want := all[int(math.Ceil(p/100*float64(len(all))))-1]
		if got := h.Percentile(p); math.Abs(float64(got-want)) > 0.002*float64(want)+1 {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	var empty Histogram
	if empty.Percentile(50) != 0 || empty.Mean() != 0 || empty.StdDev() != 0 {
		t.Error("an empty histogram has values")
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Record(time.Duration(27000 + i&4095))
	}
}
