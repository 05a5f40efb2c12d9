package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBounds(t *testing.T) {
	if !slices.IsSorted(table.upper[:]) || len(slices.Compact(slices.Clone(table.upper[:]))) != buckets {
		t.Errorf("bounds are not ascending: %v", table.upper)
	}
	if got := len(Classic()); got != classicBounds || Classic()[0] != 10*time.Microsecond || Classic()[18] != 10*time.Second {
		t.Errorf("classic bounds %v", Classic())
	}
}

// TestBucketOf compares the bucket with the definition, at, around and between the bounds.
func TestBucketOf(t *testing.T) {
	check := func(ns int64) {
		t.Helper()
		if ns < 0 {
			return
		}
		want, _ := slices.BinarySearch(table.upper[:], ns)
		if got := bucketOf(ns); got != want {
			t.Fatalf("%d ns is in bucket %d, want %d", ns, got, want)
		}
	}
	for _, u := range table.upper {
		for d := int64(-2); d <= 2; d++ {
			if u < math.MaxInt64-2 || d <= 0 {
				check(u + d)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		check(r.Int64() >> r.IntN(63))
	}
	check(0)
	check(math.MaxInt64)
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{-1, 0, 500, 10 * time.Microsecond, 10*time.Microsecond + 1, 3 * time.Millisecond, 10 * time.Second, time.Hour} {
		h.Observe(int64(d))
	}
	if h.Count() != 8 || h.Sum() != time.Hour+10*time.Second+3*time.Millisecond+20*time.Microsecond+501 {
		t.Errorf("%d durations of %v", h.Count(), h.Sum())
	}
	c := h.Cumulative()
	if c[0] != 4 || c[1] != 5 || c[7] != 5 || c[8] != 6 || c[18] != 7 {
		t.Errorf("cumulative %v", c)
	}
	var exponents []int
	var n uint64
	for e, k := range h.Native {
		exponents, n = append(exponents, e), n+k
	}
	if n != 8 || !slices.IsSorted(exponents) || exponents[0] != First || exponents[len(exponents)-1] != Last+1 {
		t.Errorf("native %v with %d", exponents, n)
	}
	bounds, most := Bounds(), 0
	n = 0
	for i, k := range h.Buckets {
		n, most = n+k, i
	}
	if n != 8 || len(bounds) != buckets-1 || most != len(bounds) || bounds[0] <= 0 || bounds[len(bounds)-1] != 64*time.Second {
		t.Errorf("%d in buckets up to %d of bounds %v", n, most, bounds)
	}
	for i := range h.Buckets { // ends early
		if i != 0 {
			t.Errorf("first bucket %d", i)
		}
		break
	}
	for e := range h.Native { // ends early
		if e != First {
			t.Errorf("first exponent %d", e)
		}
		break
	}
	before := h
	h.Observe(int64(time.Millisecond))
	h.Sub(&before)
	if h.Count() != 1 || h.Sum() != time.Millisecond {
		t.Errorf("difference %d of %v", h.Count(), h.Sum())
	}
	h.Add(&before)
	if h.Count() != 9 {
		t.Errorf("sum %d", h.Count())
	}
}

// TestQuantile: errors are smaller than the width of a bucket.
func TestQuantile(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for i := range 100000 {
		h.Observe(int64(i) * 10) // to 1 ms
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		if got, want := h.Quantile(q).Seconds(), q/1000; math.Abs(got-want) > 0.19*want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	var late Histogram
	late.Observe(int64(time.Hour))
	if got := late.Quantile(0.5); got < time.Minute || got > 65*time.Second {
		t.Errorf("beyond the last bound: %v", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Observe(int64(i&0xfffff) + 2000)
	}
}

// TestShared: several goroutines count the same as a Histogram does from one.
func TestShared(t *testing.T) {
	var s Shared
	var want, got Histogram
	var wait sync.WaitGroup
	for g := range 4 {
		for i := range 1000 {
			want.Observe(int64(g*i) * 1000)
		}
		wait.Go(func() {
			for i := range 1000 {
				s.Observe(int64(g*i) * 1000)
			}
		})
	}
	s.Observe(-5)
	want.Observe(-5)
	wait.Wait()
	if s.AddTo(&got); got != want {
		t.Errorf("%d of %v, want %d of %v", got.Count(), got.Sum(), want.Count(), want.Sum())
	}
}

func BenchmarkShared(b *testing.B) {
	var h Shared
	for i := range b.N {
		h.Observe(int64(i&0xfffff) + 2000)
	}
}
