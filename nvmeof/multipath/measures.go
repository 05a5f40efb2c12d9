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

// Latencies is a histogram of durations.
type Latencies = latency.Histogram

// Measures are the present state of a subsystem, and counters of its requests.
type Measures struct {
	NQN        nvmeof.NQN
	Namespaces []NamespaceMeasures // those that are open or have had requests, by NSID
	Paths      []PathStatus        // in the order of [Subsystem.Paths]
}

// NamespaceMeasures are the counters of the requests to a namespace: those of its queues and methods, except Use. Each
// request counts once, however many commands and attempts it took. Its time includes all waiting for a path.
type NamespaceMeasures struct {
	ID          capsule.NSID
	Identifiers host.Identifiers
	Size        int64  // bytes; 0 if it is not open
	InFlight    int64  // requests without a result yet
	Read        uint64 // bytes of Reads that succeeded
	Written     uint64 // likewise of Writes

	kinds  [len(kindNames)]*Latencies
	failed map[Failure]uint64
}

// Kinds yields the kinds of requests that occurred, with their name: read, write, flush, zeroes or dsm. Failed requests
// count too.
func (m *NamespaceMeasures) Kinds() iter.Seq2[string, *Latencies] {
	return func(yield func(string, *Latencies) bool) {
		for i, h := range m.kinds {
			if h != nil && !yield(kindNames[i], h) {
				return
			}
		}
	}
}

// Failures yields the kinds of failures of requests, with their number.
func (m *NamespaceMeasures) Failures() iter.Seq2[Failure, uint64] { return maps.All(m.failed) }

// add adds the counters of o.
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

// Measure returns the present state and counters. It does not block requests.
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

// retire keeps the counters of a namespace that is closed. mu must be held.
func (s *Subsystem) retire(n *Namespace) {
	var m NamespaceMeasures
	n.measureInto(&m)
	if m.kinds == (NamespaceMeasures{}).kinds {
		return // it has had no request
	}
	m.InFlight = 0 // calls still waiting fail now, and are no longer counted
	if s.past == nil {
		s.past = make(map[capsule.NSID]*NamespaceMeasures)
	}
	if s.past[n.id] == nil {
		s.past[n.id] = new(NamespaceMeasures)
	}
	s.past[n.id].add(&m)
}

// lossOf returns why a controller was lost, as one word.
func lossOf(err error) string {
	if errors.Is(err, errTransition) {
		return "ana"
	}
	return host.LossReason(err)
}

// attemptOf returns how a connection attempt failed, as one word.
func attemptOf(err error) string {
	if Refused(err) {
		return "refused"
	}
	return "unanswered"
}

// count increments the counter of a reason.
func count(in *map[string]uint64, reason string) {
	if *in == nil {
		*in = make(map[string]uint64)
	}
	(*in)[reason]++
}
