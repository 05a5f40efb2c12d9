package perftest

import (
	"math"
	"slices"
	"time"
)

// A Bandwidth is the result of a bandwidth test.
type Bandwidth struct {
	Size       int // bytes of a message
	Iterations int
	Peak       float64 // MiB/s between the two most favourable moments; 0: not computed
	Average    float64 // MiB/s
	Rate       float64 // millions of messages per second
}

// maxPeak is the maximum number of messages for which the peak is computed, which takes time proportional to the
// square of their number. perftest has the same limit.
const maxPeak = 20000

// NewBandwidth computes a bandwidth from the times at which each request was posted and completed, in nanoseconds of
// one clock. There must be at least one request.
func NewBandwidth(size int, posted, completed []int64) Bandwidth {
	n := len(posted)
	took := float64(max(1, completed[n-1]-posted[0]))
	b := Bandwidth{Size: size, Iterations: n}
	b.Average = mebibytes(size) * float64(n) / took * 1e9
	b.Rate = float64(n) / took * 1e3
	if n <= maxPeak {
		b.Peak = mebibytes(size) * 1e9 / shortest(posted, completed)
	}
	return b
}

func mebibytes(n int) float64 { return float64(n) / (1 << 20) }

// shortest returns the least time per message between the posting of any request and the completion of it or a later
// one.
func shortest(posted, completed []int64) float64 {
	least := math.Inf(1)
	for i, from := range posted {
		for j := i; j < len(completed); j++ {
			least = min(least, float64(max(1, completed[j]-from))/float64(j-i+1))
		}
	}
	return least
}

// A Latency is the result of a latency test: the times of one message, in one direction for tests in which both sides
// send.
type Latency struct {
	Size       int // bytes of a message
	Iterations int
	Min        time.Duration
	Max        time.Duration
	Typical    time.Duration // the median
	Average    time.Duration
	Deviation  time.Duration // standard deviation
	P99, P999  time.Duration
}

// tail is the number of the largest times that perftest omits from all statistics. The maximum is the smallest of
// them.
const tail = 2

// MinIterations is the minimum number of iterations from which a latency can be computed.
const MinIterations = 5

// NewLatency computes a latency like perftest: from the sorted times between the posting of successive requests, which
// are given in nanoseconds. There must be at least [MinIterations] requests.
func (t Test) NewLatency(size int, posted []int64) Latency {
	times := make([]time.Duration, len(posted)-1)
	for i := range times {
		times[i] = time.Duration(posted[i+1]-posted[i]) / t.half()
	}
	slices.Sort(times)
	n := len(times) - tail
	var sum, squares float64
	for _, d := range times[:n] {
		sum += float64(d)
	}
	average := sum / float64(n)
	for _, d := range times[:n] {
		squares += (float64(d) - average) * (float64(d) - average)
	}
	at := func(part float64) time.Duration { return times[int(math.Ceil(float64(n)*part))] }
	return Latency{
		Size: size, Iterations: len(posted),
		Min: times[0], Max: times[n], Typical: median(times[:n]), Average: time.Duration(average),
		Deviation: time.Duration(math.Sqrt(squares / float64(n))), P99: at(0.99), P999: at(0.999),
	}
}

func median(sorted []time.Duration) time.Duration {
	n := len(sorted)
	if n%2 == 0 {
		return (sorted[n/2] + sorted[n/2-1]) / 2
	}
	return sorted[n/2]
}
