package inuse

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// QEMU says in locks of single bytes what it does with an image: one byte for each
// permission that it uses, and one for each that it does not leave to others. All are
// shared locks, so that who may only read can take them; a conflict is found by asking
// for an exclusive one. See block/file-posix.c of QEMU.
const (
	usedBase = 100
	keptBase = 200

	permConsistentRead = 0
	permWrite          = 1
	permResize         = 3
)

// lingering is how long locks may outlive the process that had them: the kernel ends an
// io_uring, which keeps the file, some time after its process.
const lingering = 2 * time.Second

// Lock shows QEMU that the file or device is served, until the last descriptor is closed
// or Unlock is called. Who serves it for writing has it alone; readers share it. The
// error is an [*Error] where a process has it otherwise: the locks are held all the same.
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

// tryLock takes the locks and reports whether nobody has one that conflicts. Where the
// file system has no such locks QEMU cannot have them either.
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

// nobodyHas reports whether no other descriptor has one of the bytes locked.
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

// Unlock gives the locks back, which otherwise last until the end of the last io_uring
// on the file.
func Unlock(fd int) {
	_ = control(fd, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: usedBase, Len: keptBase}) // it can only be that there are none
}

// holder is a process that has the file or device open otherwise than as fd, 0 where none
// is seen: such locks have no owner that the kernel names.
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
