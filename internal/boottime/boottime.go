// Package boottime reads a clock that nobody sets, and that goes on while the machine sleeps.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is CLOCK_BOOTTIME, the time since the machine was started. All processes of a machine read the same, but for those in
// a time namespace of their own.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
