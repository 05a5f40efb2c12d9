package inuse

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// QEMU announces its use of an image by locks of single bytes: one byte for each permission that it uses, and one for
// each that it denies to others. All locks are shared, so that read-only users can take them. A conflict is found by
// testing for an exclusive lock. See block/file-posix.c of QEMU.
const (
	usedBase = 100
	keptBase = 200

	permConsistentRead = 0
	permWrite          = 1
	permResize         = 3
)

// lingering is how long locks may outlive their process: the kernel ends an io_uring, which keeps the file open, some
// time after its process.
const lingering = 2 * time.Second

// Lock announces to QEMU that the file or device is served, until the last descriptor is closed or Unlock is called. A
// writer has it exclusively; readers share it. If another process has it in a conflicting way, the error is an
// [*Error], and the locks are held nevertheless.
func Lock(fd int, path string, readOnly bool) error {
	used, kept := []int64{permConsistentRead}, []int64{permWrite, permResize}
	if !readOnly {
		used = append(used, permWrite, permResize)
	}
	for end := time.Now().Add(lingering); ; time.Sleep(10 * time.Millisecond) {
		free, err := tryLock(fd, used, kept)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if free {
			return nil
		}
		e := &Error{Path: path, User: "locked by another process"}
		pid := holder(fd, path)
		if e.process(pid); pid != 0 || time.Now().After(end) {
			return e
		}
	}
}

// tryLock takes the locks and reports whether there is no conflicting lock. If the file system does not support such
// locks, QEMU cannot have any either.
func tryLock(fd int, used, kept []int64) (free bool, err error) {
	takeAll := func(base int64, bytes []int64) error {
		for _, b := range bytes {
			if err := control(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: base + b, Len: 1}); err != nil {
				return err
			}
		}
		return nil
	}
	err = takeAll(usedBase, used)
	if err == nil {
		err = takeAll(keptBase, kept)
	}
	if err == nil {
		free, err = nobodyHas(fd, keptBase, used)
	}
	if err == nil && free {
		free, err = nobodyHas(fd, usedBase, kept)
	}
	switch err {
	case unix.EAGAIN, unix.EACCES:
		return false, nil
	case unix.EINVAL, unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP:
		return true, nil
	}
	return free, err
}

// nobodyHas reports whether no other descriptor has a lock on one of the bytes.
func nobodyHas(fd int, base int64, bytes []int64) (bool, error) {
	for _, b := range bytes {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: base + b, Len: 1}
		if err := control(fd, unix.F_OFD_GETLK, &lock); err != nil || lock.Type != unix.F_UNLCK {
			return false, err
		}
	}
	return true, nil
}

func control(fd, command int, lock *unix.Flock_t) error {
	lock.Whence = io.SeekStart
	for {
		if err := unix.FcntlFlock(uintptr(fd), command, lock); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Unlock releases the locks, which otherwise last until the end of the last io_uring on the file.
func Unlock(fd int) {
	_ = control(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: usedBase, Len: keptBase}) // fails only without locks
}

// holder returns a process that has the file or device open by a descriptor other than fd, or 0 if none is found. The
// kernel reports no owner for such locks.
func holder(fd int, path string) (pid int) {
	own, ok := look(fd, "")
	if !ok {
		return 0
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	named := func(name string) bool { return filepath.Base(name) == filepath.Base(path) }
	return opener(fd, named, own.same)
}
