package control

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxSpare is the maximum number of file descriptors that are reserved for connections.
const maxSpare = 128

// mayOpen returns an error if a store, which needs a few descriptors, would take one of those reserved for
// connections. A gateway without descriptors cannot reach the group's store: others would fence it, and take over
// as many files.
func mayOpen() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return nil // opening the store reports the error
	}
	lowest, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0) // the lowest free descriptor (open(2))
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("no file descriptor for a namespace: %w", err)
	case err != nil:
		return nil // opening the store reports the error
	}
	if err := unix.Close(lowest); err != nil {
		return err
	}
	if spare := min(l.Cur/16, maxSpare); uint64(lowest)+spare >= l.Cur {
		return fmt.Errorf("the last %d of %d file descriptors are reserved for connections: %w", spare, l.Cur, unix.EMFILE)
	}
	return nil
}
