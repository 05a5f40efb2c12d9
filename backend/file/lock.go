package file

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/inuse"
)

// A LockedError says that somebody else serves the file.
type LockedError struct {
	Path    string
	PID     int    // 0 where it could not be found out
	Command string // the process's name, "" where unknown
}

func (e *LockedError) Error() string {
	who, mend := "another process", "stop that first, or use another file"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.PID == os.Getpid() {
		who, mend = "this process", "export it once, and share that, or use another file"
	} else if e.Command != "" {
		who += " (" + e.Command + ")"
	}
	return fmt.Sprintf("%s is in use by %s: %s", e.Path, who, mend)
}

// lock takes the file for this store until it is closed. Stores that only read
// share it.
func lock(fd int, path string, shared bool) error {
	how := unix.LOCK_EX | unix.LOCK_NB
	if shared {
		how = unix.LOCK_SH | unix.LOCK_NB
	}
	next := time.Now()
	for end := next.Add(lingering); ; time.Sleep(10 * time.Millisecond) {
		err := retry(func() error { return unix.Flock(fd, how) })
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK {
			return fmt.Errorf("lock: %w", err)
		}
		if now := time.Now(); now.Before(next) && now.Before(end) {
			continue
		}
		next = time.Now().Add(lookPause)
		pid := holder(fd)
		alive := pid != 0 && unix.Kill(pid, 0) != unix.ESRCH
		if !alive && time.Now().Before(end) {
			continue
		}
		e := &LockedError{Path: path, PID: pid}
		if pid != 0 {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			e.Command = strings.TrimSpace(string(comm))
		}
		return e
	}
}

// lingering is how long a lock may outlive the process that had it: the kernel
// ends an io_uring, which keeps the file, some time after its process.
const lingering = 2 * time.Second

// lookPause is between two looks for who has the lock, which the kernel finds in a list of all locks of
// the machine: while that is read nobody gets or gives back any.
const lookPause = 500 * time.Millisecond

// unlockAndClose does not leave the lock to the end of the last io_uring.
func unlockAndClose(fd int) error {
	_ = unix.Flock(fd, unix.LOCK_UN)
	inuse.Unlock(fd)
	return unix.Close(fd)
}

// holder is the process that has locked the file, 0 where unknown.
func holder(fd int) int {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return inuse.Locker(st.Dev, st.Ino, false)
}
