// Package inuse finds out who else has a file or a block device that is to be served,
// and takes the locks by which QEMU finds that out.
//
// The kernel reports mounts, swap space, loop devices, device-mapper, RAID and its own
// targets, as far as the caller may look: in another mount namespace, or as another user
// than root, some of it is hidden. Who takes no lock and is none of these is not found.
package inuse

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An Error says that a file or a device belongs to somebody else.
type Error struct {
	Path string
	User string // "mounted on /srv", "in use by process 77 (nvmeof)"; "" where unknown
	Mend string // a command that ends that, "" where none is known

	here bool // by this process
}

func (e *Error) Error() string {
	user, mend := e.User, "run: "+e.Mend
	switch {
	case user == "":
		user, mend = "in use by the kernel or in another container", "find out with: lsblk "+e.Path
	case e.here:
		mend = "export it once, and share that"
	case e.Mend == "":
		mend = "stop that first"
	}
	return fmt.Sprintf("%s is %s: %s (the option force exports it all the same, and risks its data)", e.Path, user, mend)
}

// Note is the sentence for the log where the option force was given.
func (e *Error) Note() string {
	return fmt.Sprintf("it was opened by force although it is %s: another writer destroys data", e.User)
}

// process makes a process the user, unless it is 0.
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

// An inode is what is known of a file or a device.
type inode struct {
	dev, ino uint64
	mode     uint16
	rdev     uint64 // of a device
}

func (i inode) isBlock() bool { return i.mode&unix.S_IFMT == unix.S_IFBLK }

// same reports whether another name or descriptor leads to the same file.
func (i inode) same(other inode) bool { return i.dev == other.dev && i.ino == other.ino }

// look is stat(2), but takes what the kernel knows already: a server that is gone, of which
// somebody else may have files, must not be queried. An empty name means the descriptor.
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

// opener is a process that has open what both functions say yes to, its name and what is
// known of it, otherwise than by this process's descriptor except; 0 where none is seen.
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
				return pid // another one is more likely who is looked for
			}
		}
	}
	return pid
}

// namesIn is what a directory has, as far as it can be read. That of a process itself is
// not, as filepath.Glob would: the kernel makes an inode of each of its many files.
func namesIn(path string) []string {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}
