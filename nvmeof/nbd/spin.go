package nbd

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Factors of the minimum time that a loop without work polls.
const (
	maxSpinFactor  = 8  // maximum, if requests come at such intervals
	busySpinFactor = 16 // while the store has operations: waking up takes longer than a fast disk
)

// spinner decides how long a loop polls before it sleeps: for the interval between requests that it has observed, if
// that is not long.
type spinner struct {
	polling nvmeof.Polling
	least   time.Duration
	length  time.Duration
	idle    time.Time // since when there has been nothing to do; zero: not checked yet
	slept   bool
	crowded int // how many more times the loop sleeps without polling for clients
	most    int // maximum operations in the stores since there were none
}

const (
	// aloneTime is the maximum duration of a yield that no other thread uses.
	aloneTime = 1500 * time.Nanosecond
	// crowdedFor is how often a loop that shares its processor sleeps before it checks again whether it does.
	crowdedFor = 64
	// lonely is up to how many requests at a time the loop does not poll for more. If it slept with more, it would
	// handle the first of many alone.
	lonely = 4
)

// giveWay yields the processor. If another thread has used it, the one we wait for may not run while we poll. If we
// sleep, we are woken on the processor of the client, which then waits for us: this is faster than two processors with
// a wake-up in each direction.
func (s *spinner) giveWay() {
	start := time.Now()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if time.Since(start) > aloneTime {
		s.crowded = crowdedFor
	}
}

func (s *spinner) init(cfg *Config) {
	s.polling, s.least = cfg.Polling, cfg.spin()
	s.length = s.least
}

// worked must be called after a turn that found something to do.
func (s *spinner) worked() {
	if s.idle.IsZero() {
		return
	}
	gap := time.Since(s.idle)
	s.idle = time.Time{}
	switch {
	case gap > s.least*maxSpinFactor:
		s.length = s.least
	case gap*2 > s.length:
		s.length = min(2*gap, s.least*maxSpinFactor)
	default:
		s.length = max(s.least, s.length-s.length/64)
	}
}

// woke must be called after a sleep.
func (s *spinner) woke() { s.slept = true }

// over reports whether the loop has polled for long enough. inFlight is the number of operations in the stores.
func (s *spinner) over(inFlight int) bool {
	if inFlight > 0 {
		s.most = max(s.most, inFlight)
	}
	switch {
	case s.polling == nvmeof.PollAlways:
		return false
	case s.polling == nvmeof.PollNever:
		return true
	case s.idle.IsZero():
		s.idle, s.slept = time.Now(), false
		return false
	case s.slept: // the sleep was ended by nothing useful
		return true
	case inFlight == 0 && s.crowded > 0 && s.most <= lonely:
		s.crowded--
		s.most = 0
		return true
	}
	if inFlight == 0 {
		s.most = 0
	}
	length := s.length
	if inFlight > 0 {
		length = max(length, s.least*busySpinFactor)
	}
	return time.Since(s.idle) > length
}
