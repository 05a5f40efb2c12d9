package rc

import "time"

// standing finds a queue that never empties by round trips, for paths that do not
// mark: the shortest of a period counts (as in CoDel, RFC 8289), because a single
// long one may be a pause of either machine.
type standing struct {
	until time.Duration // end of the period
	least time.Duration // its shortest round trip
	count int
}

const (
	standingPeriod  = 5 * time.Millisecond
	standingSamples = 4
	standingSlack   = time.Millisecond
)

// sample takes a round trip, and reports whether a period has ended in which all
// were longer than long.
func (s *standing) sample(now, d, long time.Duration) bool {
	if s.count == 0 {
		s.until, s.least = now+standingPeriod, d
	}
	s.least = min(s.least, d)
	if s.count++; now < s.until || s.count < standingSamples {
		return false
	}
	s.count = 0
	return s.least > long
}

// backOff takes a quarter off both windows, which are never less than they began
// with: where the time goes into the peer's processor, less would only idle it.
func (t *roundTrip) backOff() {
	for _, c := range []*congestion{&t.sends, &t.reads} {
		c.window = max(min(c.window, firstWindow), c.window-c.window/4)
		c.threshold = c.window
	}
}
