package child

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A Sample is the result of one measurement. Figures that do not apply are zero.
type Sample struct {
	IOPS           float64
	Throughput     float64 // bytes a second
	P50, P99, P999 time.Duration

	CPU    float64 // processors used by all processes of the contender
	Store  float64 // processors used by the process that stores the data, if that is another one
	Allocs uint64  // of both ends
	Ops    uint64

	Slowest float64 // slowest connection divided by the median one
	PerUnit float64 // bytes of memory per queue
	Share   float64 // share of a processor
}

// sum adds up the results of a load's loops. The latencies are those of the first loop.
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

// side runs f n times in parallel.
func side(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// repeat measures single calls with pauses between them.
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
