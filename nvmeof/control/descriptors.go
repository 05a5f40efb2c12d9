package control

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxSpare is how many file descriptors are left for connections at most.
const maxSpare = 128

// mayOpen is an error where a store, which has a few descriptors, would take the last ones. A gateway
// without any does not reach the group's store: others fence it, and take over as many files.
func mayOpen() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return nil // then opening says so
	}
	lowest, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0) // the lowest that is free (open(2))
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("a descriptor for a namespace: %w", err)
	case err != nil:
		return nil // whatever keeps the process from that, opening says what it keeps it from
	}
	if err := unix.Close(lowest); err != nil {
		return err
	}
	if spare := min(l.Cur/16, maxSpare); uint64(lowest)+spare >= l.Cur {
		return fmt.Errorf("the last %d of %d descriptors are for connections: %w", spare, l.Cur, unix.EMFILE)
	}
	return nil
}
