package yield

import (
	"testing"
	"time"
)

// TestPolled: other threads want the processor if turns without work take long, and no longer when these are short
// again.
func TestPolled(t *testing.T) {
	const us = int64(time.Microsecond)
	for name, c := range map[string]struct {
		turn, stolen int64 // microseconds of each turn, and of each tenth turn
		want         bool
	}{
		"alone":                       {2, 2, false},
		"a slow system call":          {15, 15, false},
		"the kernel, for a moment":    {3, 10, false},
		"others, for a seventh":       {12, 20, false},
		"others, for a half":          {2, 21, true},
		"others, for a whole slice":   {2, 3000, true},
		"a processor of someone else": {30, 30, true},
	} {
		var l Loop
		now := int64(1)
		poll := func(turns int, stolen int64) {
			for i := range turns {
				now += c.turn * us
				if i%10 == 9 {
					now += (stolen - c.turn) * us
				}
				l.Polled(now)
			}
		}
		poll(1000, c.stolen)
		if l.Crowded() != c.want {
			t.Errorf("%s: %v after %d ns, %d of them lost", name, l.Crowded(), l.polled, l.lost)
		}
		if c.turn < 20 {
			if poll(10_000, c.turn); l.Crowded() {
				t.Errorf("%s: still crowded", name)
			}
		}
	}
}

// TestPolledBetween: time between turns without work does not count as taken by others.
func TestPolledBetween(t *testing.T) {
	var l Loop
	for now, i := time.Microsecond, 0; now < time.Second; now, i = now+2*time.Microsecond, i+1 {
		l.Polled(int64(now))
		switch now += time.Millisecond; i % 3 {
		case 0:
			l.Woke() // after a sleep
		case 1:
			l.Paused() // before a sleep
		default:
			l.Turn(true) // which took as long
		}
		l.Polled(int64(now))
	}
	if l.lost > 0 || l.Crowded() {
		t.Errorf("%d ns of %d lost", l.lost, l.polled)
	}
}
