package bench

import "time"

// A Sample holds the totals at a time since the measurement began.
type Sample struct {
	At    time.Duration
	Ops   [Directions]uint64
	Bytes [Directions]uint64
	Slat  [Directions]uint64 // sum, in nanoseconds
	Clat  [Directions]uint64 // sum, in nanoseconds
}

func (s Sample) minus(o *Sample) Sample {
	s.At -= o.At
	for d := range Directions {
		s.Ops[d] -= o.Ops[d]
		s.Bytes[d] -= o.Bytes[d]
		s.Slat[d] -= o.Slat[d]
		s.Clat[d] -= o.Clat[d]
	}
	return s
}

func (s *Sample) add(o *Sample) {
	for d := range Directions {
		s.Ops[d] += o.Ops[d]
		s.Bytes[d] += o.Bytes[d]
		s.Slat[d] += o.Slat[d]
		s.Clat[d] += o.Clat[d]
	}
}

// between interpolates between s and another sample at the given time. Outside it returns the nearer one.
func (s *Sample) between(o *Sample, at time.Duration) Sample {
	if o.At <= s.At || at >= o.At {
		return *o
	}
	share := max(0, float64(at-s.At)/float64(o.At-s.At))
	mix := func(a, b uint64) uint64 { return a + uint64(share*float64(b-a)) }
	m := Sample{At: at}
	for d := range Directions {
		m.Ops[d], m.Bytes[d] = mix(s.Ops[d], o.Ops[d]), mix(s.Bytes[d], o.Bytes[d])
		m.Slat[d], m.Clat[d] = mix(s.Slat[d], o.Slat[d]), mix(s.Clat[d], o.Clat[d])
	}
	return m
}

// maxSamples bounds the memory for samples.
const maxSamples = 1 << 16

// samples are in order of time. Their memory is allocated before the measurement.
type samples struct {
	all      []Sample
	interval time.Duration
	next     time.Duration // since the measurement began
}

func newSamples(j *Job) samples {
	n := maxSamples
	if j.Runtime > 0 {
		n = int(min(maxSamples, j.Runtime/j.Interval+16))
	}
	return samples{all: make([]Sample, 0, n), interval: j.Interval, next: j.Interval}
}

// take adds a sample. If there is no room, it first drops every other one.
func (s *samples) take(x Sample) {
	if len(s.all) == cap(s.all) {
		kept := s.all[:0]
		for i := 1; i < len(s.all); i += 2 {
			kept = append(kept, s.all[i])
		}
		s.all = kept
		s.interval *= 2
	}
	s.all = append(s.all, x)
	s.next = x.At - x.At%s.interval + s.interval
}

// A Window is what was done from Start to End.
type Window struct {
	Start, End time.Duration
	Sample     // At is the length of the window
}

// IOPS returns requests per second of one direction.
func (w *Window) IOPS(d Direction) float64 { return float64(w.Ops[d]) / w.At.Seconds() }

// Rate returns bytes per second of one direction.
func (w *Window) Rate(d Direction) float64 { return float64(w.Bytes[d]) / w.At.Seconds() }

// Windows divides the measurement into parts of about that length. The last one may be up to half shorter or longer.
func (r *Result) Windows(length time.Duration) (all []Window) {
	var from Sample
	end := r.Samples
	for i := range end {
		s := &end[i]
		last := i == len(end)-1
		if !last && (s.At-from.At < length || end[len(end)-1].At-s.At < length/2) {
			continue
		}
		if s.At > from.At {
			all = append(all, Window{from.At, s.At, s.minus(&from)})
		}
		from = *s
	}
	return all
}
