package inuse

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Beneath looks for the program that serves the file of a loop device: of the named device or of one below it. A
// read-only user does not conflict with other readers. It returns nil if no user is found.
func Beneath(path string, readOnly bool) *Error {
	device, ok := look(unix.AT_FDCWD, path)
	if !ok {
		return nil
	}
	for _, dir := range loopsBelow(sysfsOf(device.rdev)) {
		file, ok := backing(dir)
		if !ok {
			continue
		}
		if pid := Locker(file.dev, file.ino, readOnly); pid != 0 {
			e := &Error{Path: path}
			e.process(pid)
			e.User = fmt.Sprintf("a loop device on %s, which is %s", content(dir+"/loop/backing_file"), e.User)
			return e
		}
	}
	return nil
}

// loopsBelow returns the sysfs directories of the loop devices below the device with the sysfs directory dir.
func loopsBelow(dir string) (dirs []string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	if content(dir+"/partition") != "" {
		dir = filepath.Dir(dir)
	}
	if content(dir+"/loop/backing_file") != "" {
		return []string{dir}
	}
	below, _ := filepath.Glob(dir + "/slaves/*")
	for _, b := range below {
		dirs = append(dirs, loopsBelow(b)...)
	}
	return dirs
}

// backing returns the file of a loop device. It asks the device, since the file may have another name in this mount
// namespace.
func backing(dir string) (i inode, ok bool) {
	f, err := os.Open("/dev/" + filepath.Base(dir))
	if err == nil {
		defer f.Close()
		if info, err := unix.IoctlLoopGetStatus64(int(f.Fd())); err == nil {
			return inode{dev: info.Device, ino: info.Inode}, true
		}
	}
	return look(unix.AT_FDCWD, content(dir+"/loop/backing_file"))
}

// Locker returns a process that holds a flock(2) on a file, or 0 if none is known. With alone it looks only for
// exclusive locks.
func Locker(dev, ino uint64, alone bool) (pid int) {
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	return findLocker(locks, dev, ino, alone)
}

// findLocker parses the format of /proc/locks, proc_locks(5):
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
func findLocker(locks io.Reader, dev, ino uint64, alone bool) (pid int) {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != file || alone && f[3] != "WRITE" {
			continue
		}
		// A holder in another PID namespace is shown as 0 or -1.
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
