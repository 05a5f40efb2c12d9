package socketfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the wait for others that make or remove sockets in a folder, which takes each of
// them next to no time.
const (
	lockWait   = 3 * time.Second
	removeWait = 100 * time.Millisecond // where there will be another time
	lockPause  = 5 * time.Millisecond
)

// lock keeps others from making and removing sockets in a folder until the file is closed.
// It is nil where that cannot be had.
func lock(dir string, wait time.Duration) *os.File {
	folder, err := os.Open(dir)
	if err != nil {
		return nil // say it may be written to and not read
	}
	for end := time.Now().Add(wait); ; time.Sleep(lockPause) {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return folder
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			_ = folder.Close() // it was never used
			return nil
		}
	}
}

func unlock(folder *os.File) {
	if folder != nil {
		_ = folder.Close() // of a folder that was only read
	}
}
