package rc

import "time"

// standing detects a queue that never empties by long round trips, for paths that do not mark. It uses the minimum of
// a period (as CoDel, RFC 8289), because a single long one may be a pause of either machine.
type standing struct {
	until time.Duration // end of the period
	least time.Duration // minimum round trip of the period
	count int
}

const (
	standingPeriod  = 5 * time.Millisecond
	standingSamples = 4
	standingSlack   = time.Millisecond
)

// sample records a round trip, and reports whether a period has ended in which all were longer than long.
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

// backOff shrinks both windows by a quarter, but not below their initial size: if the time is spent on the peer's
// processor, a smaller window would only leave it idle.
func (t *roundTrip) backOff() {
	for _, c := range []*congestion{&t.sends, &t.reads} {
		c.window = max(min(c.window, firstWindow), c.window-c.window/4)
		c.threshold = c.window
	}
}
