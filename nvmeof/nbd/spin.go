package nbd

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

// Factors of the least time that a loop without work polls.
const (
	maxSpinFactor  = 8  // at most, where requests come at such intervals
	busySpinFactor = 16 // while the store has something to do: waking takes longer than a fast disk
)

// spinner decides how long a loop polls before it sleeps: as long as it has learnt
// that requests are apart, if that is not long.
type spinner struct {
	polling shard.Polling
	least   time.Duration
	length  time.Duration
	idle    time.Time // since when there was nothing to do; zero: not yet asked
	slept   bool
}

func (s *spinner) init(cfg *Config) {
	s.polling, s.least = cfg.Polling, cfg.spin()
	s.length = s.least
}

// worked is called after a turn that found something to do.
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

// woke is called after a sleep.
func (s *spinner) woke() { s.slept = true }

// over reports whether the loop has polled long enough.
func (s *spinner) over(busy bool) bool {
	switch {
	case s.polling == shard.PollAlways:
		return false
	case s.polling == shard.PollNever:
		return true
	case s.idle.IsZero():
		s.idle, s.slept = time.Now(), false
		return false
	case s.slept: // what ended the sleep was nothing
		return true
	}
	length := s.length
	if busy {
		length = max(length, s.least*busySpinFactor)
	}
	return time.Since(s.idle) > length
}
