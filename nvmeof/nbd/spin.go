package nbd

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Factors of the least time that a loop without work polls.
const (
	maxSpinFactor  = 8  // at most, where requests come at such intervals
	busySpinFactor = 16 // while the store has something to do: waking takes longer than a fast disk
)

// spinner decides how long a loop polls before it sleeps: as long as it has learnt
// that requests are apart, if that is not long.
type spinner struct {
	polling nvmeof.Polling
	least   time.Duration
	length  time.Duration
	idle    time.Time // since when there was nothing to do; zero: not yet asked
	slept   bool
	crowded int // times not to wait for clients but asleep
	most    int // requests with the store since there were none
}

const (
	// aloneTime is what giving way takes at most when nobody takes it.
	aloneTime = 1500 * time.Nanosecond
	// crowdedFor is how often a loop that is not alone on its processor sleeps before it
	// looks again whether it is.
	crowdedFor = 64
	// lonely is how many requests at a time are no reason to poll for more. Asleep, the
	// first of many would be taken alone.
	lonely = 4
)

// giveWay lets others have the processor. If somebody took it, whom we wait for may
// have none while we poll; asleep, we are woken on the processor of the client, which
// then waits for us: better than on two with a wake-up each way.
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

// over reports whether the loop has polled long enough. So many requests are with
// the store.
func (s *spinner) over(flying int) bool {
	if flying > 0 {
		s.most = max(s.most, flying)
	}
	switch {
	case s.polling == nvmeof.PollAlways:
		return false
	case s.polling == nvmeof.PollNever:
		return true
	case s.idle.IsZero():
		s.idle, s.slept = time.Now(), false
		return false
	case s.slept: // what ended the sleep was nothing
		return true
	case flying == 0 && s.crowded > 0 && s.most <= lonely:
		s.crowded--
		s.most = 0
		return true
	}
	if flying == 0 {
		s.most = 0
	}
	length := s.length
	if flying > 0 {
		length = max(length, s.least*busySpinFactor)
	}
	return time.Since(s.idle) > length
}
