package multipath

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Latencies are counts of durations, in buckets.
type Latencies = latency.Histogram

// Measures are the present state of a subsystem, and the results of its requests.
type Measures struct {
	NQN        nvmeof.NQN
	Namespaces []NamespaceMeasures // those that are open or have had requests, by ID
	Paths      []PathStatus        // as in Paths
}

// NamespaceMeasures are what the requests to a namespace came to: those of its queues and
// methods, but for Use. Each counts once, however many commands and attempts it took. Its time is until
// its result, with all that it waited for a path.
type NamespaceMeasures struct {
	ID          capsule.NSID
	Identifiers host.Identifiers
	Size        int64  // bytes; 0 where it is not open
	InFlight    int64  // requests that have begun and have no result
	Read        uint64 // bytes of Reads that succeeded
	Written     uint64 // likewise of Writes

	kinds  [len(kindNames)]*Latencies
	failed map[Failure]uint64
}

// Kinds yields the kinds of requests of which there were any, by the name of each: read,
// write, flush, zeroes or dsm. Those that failed count too.
func (m *NamespaceMeasures) Kinds() iter.Seq2[string, *Latencies] {
	return func(yield func(string, *Latencies) bool) {
		for i, h := range m.kinds {
			if h != nil && !yield(kindNames[i], h) {
				return
			}
		}
	}
}

// Failures yields what requests failed with, and how many with each.
func (m *NamespaceMeasures) Failures() iter.Seq2[Failure, uint64] { return maps.All(m.failed) }

// add adds what was counted elsewhere.
func (m *NamespaceMeasures) add(o *NamespaceMeasures) {
	m.InFlight += o.InFlight
	m.Read += o.Read
	m.Written += o.Written
	for i, h := range o.kinds {
		if h != nil {
			m.kind(i).Add(h)
		}
	}
	m.addFailed(o.failed)
}

// Measure reads the counters. No request is held up by it.
func (s *Subsystem) Measure() Measures {
	m := Measures{NQN: s.nqn}
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.namespaces))
	all := make(map[capsule.NSID]*NamespaceMeasures, len(s.past))
	for id, past := range s.past {
		sum := &NamespaceMeasures{ID: id}
		sum.add(past)
		all[id] = sum
	}
	s.mu.Unlock()
	for _, n := range open {
		sum := all[n.id]
		if sum == nil {
			sum = &NamespaceMeasures{ID: n.id}
			all[n.id] = sum
		}
		sum.Identifiers, sum.Size = n.ids, n.Size()
		n.measureInto(sum)
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		m.Namespaces = append(m.Namespaces, *all[id])
	}
	for _, p := range s.Paths() {
		m.Paths = append(m.Paths, p.Status())
	}
	return m
}

func (n *Namespace) measureInto(m *NamespaceMeasures) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls.addTo(m)
	for _, q := range n.queues {
		q.tally.addTo(m)
	}
	m.add(&n.past)
}

// retire keeps the counters of a namespace that is closed. Under mu.
func (s *Subsystem) retire(n *Namespace) {
	var m NamespaceMeasures
	n.measureInto(&m)
	if m.kinds == (NamespaceMeasures{}).kinds {
		return // it has had no request
	}
	m.InFlight = 0 // calls that wait end now, with what is not counted any more
	if s.past == nil {
		s.past = make(map[capsule.NSID]*NamespaceMeasures)
	}
	if s.past[n.id] == nil {
		s.past[n.id] = new(NamespaceMeasures)
	}
	s.past[n.id].add(&m)
}

// lossOf is why a controller was lost, in a word.
func lossOf(err error) string {
	if errors.Is(err, errTransition) {
		return "ana"
	}
	return host.LossReason(err)
}

// attemptOf is how an attempt to connect failed, in a word.
func attemptOf(err error) string {
	if Refused(err) {
		return "refused"
	}
	return "unanswered"
}

// count counts something by its reason.
func count(in *map[string]uint64, reason string) {
	if *in == nil {
		*in = make(map[string]uint64)
	}
	(*in)[reason]++
}
