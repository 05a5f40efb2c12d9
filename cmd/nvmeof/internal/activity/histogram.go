package activity

import (
	"math"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// sub returns what a histogram has counted since before. If the counters went back, they have restarted.
func sub(now, before control.Latencies) control.Latencies {
	was := map[uint64]uint64{}
	for _, b := range before.Buckets {
		was[b[0]] = b[1]
	}
	out := control.Latencies{SumNS: now.SumNS - before.SumNS}
	for _, b := range now.Buckets {
		n := b[1] - was[b[0]]
		if b[1] < was[b[0]] {
			return now
		}
		if n > 0 {
			out.Buckets = append(out.Buckets, [2]uint64{b[0], n})
		}
	}
	if out.SumNS < 0 {
		return now
	}
	return out
}

// add merges two histograms with ascending buckets.
func add(a, b control.Latencies) control.Latencies {
	out := control.Latencies{SumNS: a.SumNS + b.SumNS}
	x, y := a.Buckets, b.Buckets
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0][0] < y[0][0]:
			out.Buckets, x = append(out.Buckets, x[0]), x[1:]
		case x[0][0] > y[0][0]:
			out.Buckets, y = append(out.Buckets, y[0]), y[1:]
		default:
			out.Buckets = append(out.Buckets, [2]uint64{x[0][0], x[0][1] + y[0][1]})
			x, y = x[1:], y[1:]
		}
	}
	out.Buckets = append(append(out.Buckets, x...), y...)
	return out
}

// Histogram returns the distribution of a namespace's command durations between two readings, the first of which may
// be nil: upper bounds in nanoseconds, and counts. Durations above all bounds are counted at the last one.
func Histogram(before, now *control.Measures, nqn nvmeof.NQN, nsid int) (out [][2]uint64) {
	if before == nil || before.PID != now.PID || !before.Started.Equal(now.Started) {
		before = new(control.Measures)
	}
	find := func(m *control.Measures) control.NamespaceMeasures {
		for i := range m.Namespaces {
			if n := &m.Namespaces[i]; n.Subsystem == nqn && n.NSID == nsid {
				return *n
			}
		}
		return control.NamespaceMeasures{}
	}
	was := find(before)
	earlier := by(was.Commands, func(k *control.CommandMeasures) string { return k.Op })
	var all control.Latencies
	for _, k := range find(now).Commands {
		all = add(all, sub(k.Command, orNew(earlier, k.Op).Command))
	}
	for _, b := range all.Buckets {
		out = append(out, [2]uint64{uint64(bounds(now.BoundsNS).at(b[0], 0)), b[1]})
	}
	return out
}

func count(h control.Latencies) (n uint64) {
	for _, b := range h.Buckets {
		n += b[1]
	}
	return n
}

// bounds holds the upper bounds of buckets in nanoseconds; the last bucket has none.
type bounds []int64

func (b bounds) latency(h control.Latencies) Latency {
	n := count(h)
	if n == 0 {
		return Latency{}
	}
	return Latency{n, time.Duration(float64(h.SumNS) / float64(n)), b.quantile(h, n, 0.5), b.quantile(h, n, 0.99)}
}

// quantile estimates the q quantile of n durations, assuming that those of a bucket are evenly distributed. Durations
// above all bounds count as the last bound.
func (b bounds) quantile(h control.Latencies, n uint64, q float64) time.Duration {
	rank, below := q*float64(n), 0.0
	for _, x := range h.Buckets {
		in := float64(x[1])
		if below+in < rank {
			below += in
			continue
		}
		from, to := b.at(x[0], -1), b.at(x[0], 0)
		return time.Duration(math.Round(from + (to-from)*(rank-below)/in))
	}
	return 0
}

// at returns the bound of bucket i, or with before = -1 of the bucket before.
func (b bounds) at(i uint64, before int) float64 {
	switch k := int(min(i, uint64(len(b)))) + before; {
	case k < 0 || len(b) == 0:
		return 0
	default:
		return float64(b[min(k, len(b)-1)])
	}
}
