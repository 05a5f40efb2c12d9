package decide

import "fmt"

// A Policy says which of several usable paths a request takes. The names are those
// of Linux's iopolicy.
type Policy uint8

const (
	// NUMA takes the path whose device is nearest to the processor of the request, and of
	// those that are as near stays with one: at first the first in the list.
	NUMA       Policy = iota
	RoundRobin        // one after the other
	QueueDepth        // the one with the fewest requests in flight
	Latency           // the one that is likely to answer first, by what was measured
)

var policyNames = [...]string{"numa", "round-robin", "queue-depth", "latency"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// Policies are the names that ParsePolicy takes.
func Policies() []string { return policyNames[:] }

// ParsePolicy is the reverse of String.
func ParsePolicy(s string) (Policy, error) {
	for i, name := range policyNames {
		if s == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("%q: want numa, round-robin, queue-depth or latency", s)
}

// A Class is how good a path is for a namespace; a request takes one of the highest
// that there is.
type Class uint8

const (
	Unusable Class = iota
	NonOptimized
	Optimized
)

// A Candidate is a path as a request sees it.
type Candidate struct {
	Class    Class
	InFlight int64 // requests on the path, of all namespaces
	Latency  int64 // smoothed, in nanoseconds; 0: nothing measured
	Distance int   // of its device from the processor of the request; what counts is which is less
}

// A Cursor is what a policy remembers of its choices.
type Cursor struct {
	Last  int    // the one chosen last
	Count uint32 // choices
}

// refresh is after how many choices by latency one goes in turn, so that a path
// that was slow is found to be fast again.
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

// nearest is the one of a class that is nearest: of equals the last one, or else the first.
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

// after is the next of a class behind another, in a circle.
func after(cs []Candidate, class Class, last int) int {
	for k := range cs {
		i := (last + 1 + k) % len(cs)
		if cs[i].Class == class {
			return i
		}
	}
	return -1
}

// least is the one of a class that costs least; of equals the next behind the last,
// so that they take turns.
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

// cost is how long a request may take there.
func (c *Candidate) cost(p Policy) int64 {
	if p == QueueDepth {
		return c.InFlight
	}
	return c.Latency * (c.InFlight + 1)
}

// Smooth mixes a measurement into a smoothed latency, an eighth of it.
func Smooth(old, sample int64) int64 {
	if old == 0 {
		return max(sample, 1)
	}
	return max(old+(sample-old)/8, 1)
}
