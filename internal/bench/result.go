package bench

import (
	"slices"
	"time"
)

// A Result is the measurement of a job.
type Result struct {
	Job
	Ops      uint64 // without flushes
	Bytes    uint64
	Began    time.Time // start of the measurement, after the ramp; zero: the job was cut short before
	Elapsed  time.Duration
	Sides    [Directions]Side
	Flushes  *Histogram // nil without Job.FlushEvery
	Verified uint64     // blocks read back and found correct

	Samples              []Sample // in order of time
	Depths               Depths
	Submitted, Completed Batches
	Usage                Usage // of the process during the measurement, in equal shares for concurrent jobs
}

// A Side is the measurement of one direction.
type Side struct {
	Bytes uint64
	Slat  *Histogram // from the creation of a request until the store has it; nil if there are none
	Clat  *Histogram // from then until its result is seen
	Lat   *Histogram // both
}

// Ops returns the number of requests.
func (s *Side) Ops() uint64 {
	if s.Lat == nil {
		return 0
	}
	return s.Lat.Count
}

func newSide() Side { return Side{Slat: new(Histogram), Clat: new(Histogram), Lat: new(Histogram)} }

func newResult(j Job) *Result {
	r := &Result{Job: j}
	for d := range Directions {
		if j.Pattern.Does(Direction(d)) {
			r.Sides[d] = newSide()
		}
	}
	if j.FlushEvery > 0 {
		r.Flushes = new(Histogram)
	}
	return r
}

// record counts a completed request.
func (r *Result) record(s *slot, now time.Duration) {
	if s.direction == toFlush {
		r.Flushes.Record(now - s.started)
		return
	}
	side := &r.Sides[s.direction]
	side.Bytes += uint64(s.length)
	side.Slat.Record(s.issued - s.started)
	side.Clat.Record(now - s.issued)
	side.Lat.Record(now - s.started)
}

// IOPS returns requests per second.
func (r *Result) IOPS() float64 { return r.perSecond(r.Ops) }

// Throughput returns bytes per second.
func (r *Result) Throughput() float64 { return r.perSecond(r.Bytes) }

func (r *Result) perSecond(n uint64) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(n) / r.Elapsed.Seconds()
}

// Percentile returns the time that p percent of the requests do not exceed.
func (r *Result) Percentile(p float64) time.Duration { return r.Latencies().Percentile(p) }

// Latencies returns the latencies of all requests.
func (r *Result) Latencies() *Histogram {
	all := new(Histogram)
	for d := range r.Sides {
		all.Add(r.Sides[d].Lat)
	}
	return all
}

// Merge returns the combined result of concurrent jobs. Its Job is that of the first one.
func Merge(results []*Result) *Result {
	first := results[0]
	m := &Result{Job: first.Job, Began: first.Began}
	for _, r := range results {
		m.Ops += r.Ops
		m.Bytes += r.Bytes
		m.Verified += r.Verified
		m.Elapsed = max(m.Elapsed, r.Elapsed)
		for d := range r.Sides {
			m.Sides[d].merge(&r.Sides[d])
		}
		if r.Flushes != nil {
			if m.Flushes == nil {
				m.Flushes = new(Histogram)
			}
			m.Flushes.Add(r.Flushes)
		}
		for i := range m.Depths {
			m.Depths[i] += r.Depths[i]
			m.Submitted[i] += r.Submitted[i]
			m.Completed[i] += r.Completed[i]
		}
		m.Usage.add(r.Usage)
	}
	m.Samples = mergeSamples(results)
	return m
}

func (s *Side) merge(o *Side) {
	if o.Lat == nil {
		return
	}
	if s.Lat == nil {
		*s = newSide()
	}
	s.Bytes += o.Bytes
	s.Slat.Add(o.Slat)
	s.Clat.Add(o.Clat)
	s.Lat.Add(o.Lat)
}

// mergeSamples adds up the samples of concurrent jobs, at the times of the job with the most samples. The values of
// other jobs are interpolated: a job has fewer samples if its thread got no processor for a while.
func mergeSamples(results []*Result) []Sample {
	longest := slices.MaxFunc(results, func(a, b *Result) int { return len(a.Samples) - len(b.Samples) })
	all := slices.Clone(longest.Samples)
	for _, r := range results {
		if r == longest || len(r.Samples) == 0 {
			continue
		}
		i, before := 0, Sample{}
		for k := range all {
			for ; i < len(r.Samples)-1 && r.Samples[i].At < all[k].At; i++ {
				before = r.Samples[i]
			}
			after := r.Samples[i]
			if k == len(all)-1 { // the totals
				after = r.Samples[len(r.Samples)-1]
				before = after
			}
			part := before.between(&after, all[k].At)
			all[k].add(&part)
		}
	}
	return all
}
