package socketfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the wait for other processes that make or remove sockets in a folder; each needs the lock only briefly.
const (
	lockWait   = 3 * time.Second
	removeWait = 100 * time.Millisecond // if the removal can be tried again later
	lockPause  = 5 * time.Millisecond
)

// lock prevents other processes from making and removing sockets in a folder until the file is closed. It returns nil
// if the lock cannot be acquired.
func lock(dir string, wait time.Duration) *os.File {
	folder, err := os.Open(dir)
	if err != nil {
		return nil // for example, the folder may be written to but not read
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
