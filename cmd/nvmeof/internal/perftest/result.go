package perftest

import (
	"math"
	"slices"
	"time"
)

// A Bandwidth is what a bandwidth test measured.
type Bandwidth struct {
	Size       int // bytes of a message
	Iterations int
	Peak       float64 // MiB/s between the two best chosen moments; 0: not looked for
	Average    float64 // MiB/s
	Rate       float64 // millions of messages a second
}

// maxPeak is the most messages among which the peak is looked for, which takes time by
// the square of their number; perftest has the same.
const maxPeak = 20000

// NewBandwidth calculates a bandwidth from when each request was posted and when it
// completed, in nanoseconds of one clock. There is at least one request.
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

// shortest is the least time per message between the posting of any request and the
// completion of it or a later one.
func shortest(posted, completed []int64) float64 {
	least := math.Inf(1)
	for i, from := range posted {
		for j := i; j < len(completed); j++ {
			least = min(least, float64(max(1, completed[j]-from))/float64(j-i+1))
		}
	}
	return least
}

// A Latency is what a latency test measured: times of one message, one way for tests in which
// both ends send.
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

// tail is how many of the largest times perftest leaves out of all but the maximum, which
// itself is without the largest.
const tail = 2

// MinIterations is the least for which a latency can be measured.
const MinIterations = 5

// NewLatency calculates a latency from when each request was posted, in nanoseconds, as perftest
// does: from the times between them, sorted. There are at least [MinIterations].
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
