package simulated

import "time"

const (
	leastDelay = 100 * time.Microsecond // of a message on a link without faults
	mostDelay  = 2 * time.Millisecond
	lateNotice = 900 * time.Millisecond // maximum delay of a watch
	meanLate   = time.Second            // after the caller gave up, for a late request
)

// A Link is the connection between a client and the store. The zero value has no faults.
type Link struct {
	Slow        time.Duration // maximum additional delay of a message
	LoseRequest float64       // probability for a request
	LoseReply   float64       // probability for the reply to an executed request
	// Late is the probability that a request that is lost, for whatever reason, arrives nevertheless after its caller
	// has given up. Delay is the probability that a request that is not lost is late.
	Late, Delay float64
	CutRequests bool // everything to the store is lost
	CutReplies  bool // everything from the store is lost
}

// Cut returns a link on which everything is lost, and nothing arrives late.
func Cut() Link { return Link{CutRequests: true, CutReplies: true} }

// chance returns true with the given probability.
func (s *Store) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// between returns a random duration.
func (s *Store) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// delay returns how long a message takes.
func (s *Store) delay(l Link) time.Duration { return s.between(leastDelay, mostDelay+l.Slow) }

// noticeDelay returns how long a notice of change takes: occasionally almost the maximum.
func (s *Store) noticeDelay(l Link) time.Duration {
	if s.chance(1.0 / 8) {
		return s.between(leastDelay, lateNotice)
	}
	return min(s.delay(l), lateNotice)
}
