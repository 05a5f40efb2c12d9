package namedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// places is the number of concurrent replacements of one file whose file names are known to the next one. Further ones
// use random names, which remain after a kill.
const places = 4

// create creates the file for the new content. It first removes the unlocked files that killed processes have left
// behind, so that they do not accumulate.
func (s *Staged) create() error {
	var names []string
	for i := range places {
		name := fmt.Sprintf(".%s.%d.new", s.final, i+1)
		if s.clear(name) {
			names = append(names, name)
		}
	}
	names = append(names, fmt.Sprintf(".%s.%d.%s", s.final, os.Getpid(), strconv.FormatInt(time.Now().UnixNano(), 36)))
	var err error
	for _, name := range names {
		if err = s.make(name); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// clear removes a file that was left behind under a name, and reports whether the name is free.
func (s *Staged) clear(name string) bool {
	info, err := s.folder.Lstat(name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if !info.Mode().IsRegular() {
		return false
	}
	f, err := s.folder.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) { // it has the mode of the file that it was to replace
		f, err = s.folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() // also unlocks it
	return lock(f) == nil && s.has(name, f) && s.folder.Remove(name) == nil
}

// make creates and locks a file. If another process takes the file for one that was left behind before it is locked,
// the error is [fs.ErrExist], too.
func (s *Staged) make(name string) error {
	f, err := s.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if errors.Is(lock(f), syscall.EWOULDBLOCK) || !s.has(name, f) { // without file locks no process removes it
		return errors.Join(fs.ErrExist, f.Close())
	}
	s.file, s.next = f, name
	return nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// has reports whether f is the file with that name.
func (s *Staged) has(name string, f *os.File) bool {
	there, err := s.folder.Lstat(name)
	is, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(there, is)
}
