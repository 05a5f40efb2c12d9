// Package boottime reads a clock that cannot be set and that includes the time during which the machine sleeps.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_BOOTTIME, the time since the machine was started. All processes of a machine read the same time,
// except those in other time namespaces.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
