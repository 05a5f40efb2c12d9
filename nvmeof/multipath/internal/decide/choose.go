package decide

import "fmt"

// A Policy says which of several usable paths a request takes. The names are those of Linux's iopolicy.
type Policy uint8

const (
	// NUMA takes the path whose device is nearest to the processor of the request. Among equally near ones it stays
	// with one, initially the first in the list.
	NUMA       Policy = iota
	RoundRobin        // each path in turn
	QueueDepth        // the path with the fewest requests in flight
	Latency           // the path that is likely to answer first, according to measurements
)

var policyNames = [...]string{"numa", "round-robin", "queue-depth", "latency"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// Policies returns the names that ParsePolicy accepts.
func Policies() []string { return policyNames[:] }

// ParsePolicy is the inverse of String.
func ParsePolicy(s string) (Policy, error) {
	for i, name := range policyNames {
		if s == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("%q: want numa, round-robin, queue-depth or latency", s)
}

// A Class says how good a path is for a namespace. A request takes a path of the highest class available.
type Class uint8

const (
	Unusable Class = iota
	NonOptimized
	Optimized
)

// A Candidate is a path as seen by a request.
type Candidate struct {
	Class    Class
	InFlight int64 // requests on the path, of all namespaces
	Latency  int64 // smoothed, in nanoseconds; 0: not measured
	Distance int   // of its device to the processor of the request; only the order matters
}

// A Cursor is the state of a policy between choices.
type Cursor struct {
	Last  int    // index of the last choice
	Count uint32 // number of choices
}

// refresh is the number of choices by latency after which one is made in turn, so that it is noticed when a slow path
// becomes fast.
const refresh = 64

// Choose returns the index of the path to take, or -1 if none is usable.
func Choose(p Policy, cs []Candidate, at *Cursor) int {
	best := Unusable
	for i := range cs {
		best = max(best, cs[i].Class)
	}
	if best == Unusable {
		return -1
	}
	at.Count++
	chosen := -1
	switch p {
	case RoundRobin:
		chosen = after(cs, best, at.Last)
	case QueueDepth:
		chosen = least(p, cs, best, at.Last)
	case Latency:
		if at.Count%refresh == 0 {
			chosen = after(cs, best, at.Last)
			break
		}
		chosen = least(p, cs, best, at.Last)
	default:
		chosen = nearest(cs, best, at.Last)
	}
	at.Last = chosen
	return chosen
}

// nearest returns the nearest candidate of a class: among equals the last choice, or else the first.
func nearest(cs []Candidate, class Class, last int) int {
	best := -1
	for i := range cs {
		if cs[i].Class == class && (best < 0 || cs[i].Distance < cs[best].Distance) {
			best = i
		}
	}
	if last >= 0 && last < len(cs) && cs[last].Class == class && cs[last].Distance <= cs[best].Distance {
		return last
	}
	return best
}

// after returns the next candidate of a class after last, cyclically.
func after(cs []Candidate, class Class, last int) int {
	for k := range cs {
		i := (last + 1 + k) % len(cs)
		if cs[i].Class == class {
			return i
		}
	}
	return -1
}

// least returns the candidate of a class with the least cost; among equals the next one after last, so that they take
// turns.
func least(p Policy, cs []Candidate, class Class, last int) int {
	best := -1
	for k := range cs {
		i := (last + 1 + k) % len(cs)
		if cs[i].Class == class && (best < 0 || cs[i].cost(p) < cs[best].cost(p)) {
			best = i
		}
	}
	return best
}

// cost is the expected duration of a request on the path; only the order matters.
func (c *Candidate) cost(p Policy) int64 {
	if p == QueueDepth {
		return c.InFlight
	}
	return c.Latency * (c.InFlight + 1)
}

// Smooth returns a smoothed latency, in which sample has a weight of one eighth.
func Smooth(old, sample int64) int64 {
	if old == 0 {
		return max(sample, 1)
	}
	return max(old+(sample-old)/8, 1)
}
