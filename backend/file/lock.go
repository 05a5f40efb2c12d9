package file

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/inuse"
)

// A LockedError says that another program serves the file.
type LockedError struct {
	Path    string
	PID     int    // 0 if unknown
	Command string // the process's name, "" if unknown
}

func (e *LockedError) Error() string {
	who, mend := "another process", "stop that first, or use another file"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.PID == os.Getpid() {
		who, mend = "this process", "export it in one namespace only, or use another file"
	} else if e.Command != "" {
		who += " (" + e.Command + ")"
	}
	return fmt.Sprintf("%s is in use by %s: %s", e.Path, who, mend)
}

// lock locks the file until it is closed. Read-only stores share the lock.
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

// lingering is how long a lock may outlive the process that held it: the kernel ends an io_uring, which keeps the file
// open, some time after its process.
const lingering = 2 * time.Second

// lookPause is the time between two searches for the lock's holder. The kernel searches a list of all locks of the
// machine, and no process can acquire or release a lock while that list is read.
const lookPause = 500 * time.Millisecond

// unlockAndClose unlocks first, since otherwise the lock would last until the last io_uring has ended.
func unlockAndClose(fd int) error {
	_ = unix.Flock(fd, unix.LOCK_UN)
	inuse.Unlock(fd)
	return unix.Close(fd)
}

// holder returns the process that has locked the file, or 0 if unknown.
func holder(fd int) int {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return inuse.Locker(st.Dev, st.Ino, false)
}
