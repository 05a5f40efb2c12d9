// Package boottime reads a clock that cannot be set and that includes the time during which the machine sleeps.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_BOOTTIME, the time since the machine was started. All processes of a machine read the same time,
// except those in other time namespaces.
func Now() time.Duration { return read(unix.CLOCK_BOOTTIME) }

// precise is the maximum time between the readings of the clocks in Slept.
const precise = time.Millisecond

// Slept returns how long the machine has slept since it was started, within a millisecond: the part of Now that the
// monotonic clock of package time does not count.
func Slept() time.Duration {
	for {
		before, boot := read(unix.CLOCK_MONOTONIC), Now()
		if after := read(unix.CLOCK_MONOTONIC); after-before < precise { // nothing has held it up in between
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
