// Package boottime reads a clock that nobody sets, and that goes on while the machine sleeps.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is CLOCK_BOOTTIME, the time since the machine was started. All processes of a machine read the same, but for those in
// a time namespace of their own.
func Now() time.Duration { return read(unix.CLOCK_BOOTTIME) }

// precise is within what time Slept reads its clocks.
const precise = time.Millisecond

// Slept is how long the machine has slept since it was started, within a millisecond: what of Now the monotonic clock of package
// time does not count.
func Slept() time.Duration {
	for {
		before, boot := read(unix.CLOCK_MONOTONIC), Now()
		if after := read(unix.CLOCK_MONOTONIC); after-before < precise { // nobody has held it up in between
			return boot - after
		}
	}
}

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // every Linux since 2.6.39 has both
	}
	return time.Duration(t.Nano())
}
