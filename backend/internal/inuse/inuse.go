// Package inuse finds other users of a file or a block device that is to be served, and takes the locks that announce
// this use to QEMU.
//
// The kernel reports mounts, swap space, loop devices, device-mapper, RAID and its own targets. Some of these are
// hidden from a process in another mount namespace or without root privileges. A user that takes no lock and is none of
// these is not found.
package inuse

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An Error says that another user has a file or a device.
type Error struct {
	Path string
	User string // "mounted on /srv", "in use by process 77 (nvmeof)"; "" if unknown
	Mend string // a command that ends that use, or "" if none is known

	here bool // used by this process
}

func (e *Error) Error() string {
	user, mend := e.User, "run: "+e.Mend
	switch {
	case user == "":
		user, mend = "in use by the kernel or in another container", "find out with: lsblk "+e.Path
	case e.here:
		mend = "export it in one namespace only"
	case e.Mend == "":
		mend = "stop its user first"
	}
	return fmt.Sprintf("%s is %s: %s (option force exports it anyway, at the risk of corrupting its data)", e.Path, user, mend)
}

// Note returns the sentence for the log if option force was given.
func (e *Error) Note() string {
	return fmt.Sprintf("it was opened with force although it is %s: a second writer corrupts its data", e.User)
}

// process sets the user to a process, unless pid is 0.
func (e *Error) process(pid int) {
	if pid == 0 {
		return
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	e.User = fmt.Sprintf("in use by process %d (%s)", pid, strings.TrimSpace(string(comm)))
	if e.here = pid == os.Getpid(); e.here {
		e.User = "in use by this process"
	}
}

// An inode identifies a file or a device.
type inode struct {
	dev, ino uint64
	mode     uint16
	rdev     uint64 // of a device
}

func (i inode) isBlock() bool { return i.mode&unix.S_IFMT == unix.S_IFBLK }

// same reports whether both refer to the same file.
func (i inode) same(other inode) bool { return i.dev == other.dev && i.ino == other.ino }

// look is stat(2), but uses only what the kernel has cached: it must not query a file server that may not respond, on
// which other processes may have files. An empty name selects the descriptor.
func look(fd int, name string) (i inode, ok bool) {
	flags := unix.AT_STATX_DONT_SYNC
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	if unix.Statx(fd, name, flags, unix.STATX_TYPE|unix.STATX_INO, &st) != nil {
		return i, false
	}
	return inode{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, mode: st.Mode,
		rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor)}, true
}

// opener returns a process that has a file open for which both functions return true: one for its name, one for its
// inode. It ignores this process's descriptor except. It returns 0 if none is found.
func opener(except int, named func(string) bool, is func(inode) bool) (pid int) {
	for _, process := range namesIn("/proc") {
		id, err := strconv.Atoi(process)
		if err != nil {
			continue
		}
		dir := "/proc/" + process + "/fd/"
		for _, fd := range namesIn(dir) {
			if id == os.Getpid() && fd == strconv.Itoa(except) {
				continue
			}
			if to, err := os.Readlink(dir + fd); err != nil || !named(to) {
				continue
			}
			if i, ok := look(unix.AT_FDCWD, dir+fd); !ok || !is(i) {
				continue
			}
			if pid = id; pid != os.Getpid() {
				return pid // another process is more likely the user than this one
			}
		}
	}
	return pid
}

// namesIn returns the names in a directory, as far as they can be read. filepath.Glob would also read each process's
// directory itself, for whose many files the kernel then creates inodes.
func namesIn(path string) []string {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}
