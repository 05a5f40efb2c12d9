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

// places is how many replacements of one file may be under way at a time under names that the
// next one knows. More have names of their own, which nobody removes after a kill.
const places = 4

// create makes the file for the new content. What a process that was killed has left behind is
// removed first, so that it does not pile up: it is not locked.
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

// clear removes what was left behind under a name, and reports whether that is free.
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
	defer f.Close() // which unlocks it
	return lock(f) == nil && s.has(name, f) && s.folder.Remove(name) == nil
}

// make makes and locks a file. Somebody may take it for one that was left behind, before it is
// locked: the error is then [fs.ErrExist], too.
func (s *Staged) make(name string) error {
	f, err := s.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if errors.Is(lock(f), syscall.EWOULDBLOCK) || !s.has(name, f) { // where there are no locks nobody takes it
		return errors.Join(fs.ErrExist, f.Close())
	}
	s.file, s.next = f, name
	return nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// has reports whether a file is the one of a name.
func (s *Staged) has(name string, f *os.File) bool {
	there, err := s.folder.Lstat(name)
	is, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(there, is)
}
