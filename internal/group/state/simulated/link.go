package simulated

import "time"

const (
	leastDelay = 100 * time.Microsecond // of a message without faults
	mostDelay  = 2 * time.Millisecond
	lateNotice = 900 * time.Millisecond // of a watch, at most
	meanLate   = time.Second            // after the caller gave up, of a request that is late
)

// A Link is the way between a client and the store. That of the zero value has no faults.
type Link struct {
	Slow        time.Duration // what a message takes at most, longer than usual
	LoseRequest float64       // chance of a request
	LoseReply   float64       // chance of a reply to what was carried out
	// Late is the chance that a request which is lost, for whatever reason, arrives all the
	// same, after its caller has given up. One that is not lost may be late by the chance Delay.
	Late, Delay float64
	CutRequests bool // everything to the store is lost
	CutReplies  bool // everything from the store is lost
}

// Cut is a link through which nothing passes, and late nothing either.
func Cut() Link { return Link{CutRequests: true, CutReplies: true} }

// chance is true with that probability.
func (s *Store) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// between is a random duration.
func (s *Store) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// delay is how long a message takes.
func (s *Store) delay(l Link) time.Duration { return s.between(leastDelay, mostDelay+l.Slow) }

// noticeDelay is how long it takes until a watch says a change: now and then almost as long as
// it may.
func (s *Store) noticeDelay(l Link) time.Duration {
	if s.chance(1.0 / 8) {
		return s.between(leastDelay, lateNotice)
	}
	return min(s.delay(l), lateNotice)
}
