package child

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A Sample is what one measurement gave, zero where it does not apply.
type Sample struct {
	IOPS           float64
	Throughput     float64 // bytes a second
	P50, P99, P999 time.Duration

	CPU    float64 // processors that all processes of the contender used
	Store  float64 // processors that what stores the data used, where that is a process of its own
	Allocs uint64  // of both ends
	Ops    uint64

	Slowest float64 // of the connections, over the median one
	PerUnit float64 // bytes of memory of each queue
	Share   float64 // of a processor
}

// sum adds up what loops of one load gave. The latencies are the first's.
func sum(results []*bench.Result) (s Sample) {
	first := results[0]
	s.P50, s.P99, s.P999 = first.Percentile(50), first.Percentile(99), first.Percentile(99.9)
	for _, r := range results {
		s.IOPS += r.IOPS()
		s.Throughput += r.Throughput()
		s.Ops += r.Ops
	}
	return s
}

// side runs f n times, side by side.
func side(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// repeat times single calls with pauses between them.
func repeat(spec FirstSpec, f func() error) (Sample, error) {
	var times []time.Duration
	for range spec.Times {
		time.Sleep(spec.Pause)
		start := time.Now()
		if err := f(); err != nil {
			return Sample{}, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return Sample{P50: times[len(times)/2]}, nil
}
