package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// temporaryName is that of the folders in which sockets are made.
var temporaryName = regexp.MustCompile(`^\.s[0-9]+$`)

// lockTemporary marks the folder in which a socket is made as in use, for as long as the process
// lives and the file is open.
func lockTemporary(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// clearLeftOver removes from a locked folder what targets of this user left there that ended
// without their doing: folders in which a socket was to be made, and where home is not empty the
// sockets beside it that nobody serves.
func clearLeftOver(folder *os.File, home string) {
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(folder.Name(), e.Name())
		switch {
		case !isMine(e):
		case e.IsDir() && temporaryName.MatchString(e.Name()):
			clearTemporary(path)
		case home != "" && isBeside(home, e) && isDead(path):
			_ = os.Remove(path)
		}
	}
}

// clearTemporary removes a folder in which nobody makes a socket any more, with a dead socket
// if it has one. One with anything else in it is not from a target.
func clearTemporary(dir string) {
	f, err := lockTemporary(dir)
	if err != nil {
		return
	}
	defer f.Close()
	if socket := filepath.Join(dir, "s"); isDead(socket) {
		_ = os.Remove(socket)
	}
	_ = os.Remove(dir) // if it is empty
}

// isMine reports whether the process's user made a file.
func isMine(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// isDead reports whether a path is a socket of which the kernel says that nobody has it.
func isDead(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
