package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// markName is the extended attribute with the mark of a file that Open has created.
const markName = "user.nvmeof.created"

const markSize = 16

// markFile returns the path of the file that holds the mark if the file system has no extended attributes.
func markFile(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".mark")
}

// MarkFile returns the path of the file in which Open has stored the mark of the file at path, or "" if there is none.
// It is used where the file system has no extended attributes. To remove a file permanently, remove its mark file too.
func MarkFile(path string) string {
	if retry(func() error { _, err := unix.Getxattr(filepath.Dir(path), markName, nil); return err }) != unix.ENOTSUP {
		return "" // a file with that name is not ours
	}
	at := markFile(path)
	if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() || info.Size() != markSize {
		return ""
	}
	return at
}

// mark marks a newly created file. If the mark cannot be stored, it lasts as long as the store; the mark of later
// content still differs.
func (s *Store) mark() {
	s.marked = make([]byte, markSize)
	_, _ = rand.Read(s.marked) // it never fails
	err := retry(func() error { return unix.Fsetxattr(s.fd, markName, s.marked, 0) })
	if err == unix.ENOTSUP {
		err = writeMarkFile(markFile(s.path), s.marked)
	}
	if err != nil {
		s.note(fmt.Sprintf("the file cannot be marked as new (%v): hosts will see a different disk when it is opened again", err))
	}
}

// writeMarkFile replaces an existing file, unless it is a symbolic link.
func writeMarkFile(path string, mark []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(mark)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path) // nobody would: without a mark in it, it is not known as a mark file
	}
	return err
}

// readMark reads the mark of an existing file.
func (s *Store) readMark() {
	s.marked = markOf(s.path, func(b []byte) (int, error) { return unix.Fgetxattr(s.fd, markName, b) })
}

// ReadMark returns the mark of a file, which may be open elsewhere, or nil if it has none.
func ReadMark(path string) []byte {
	return markOf(path, func(b []byte) (int, error) { return unix.Getxattr(path, markName, b) })
}

func markOf(path string, get func([]byte) (int, error)) []byte {
	b, n := make([]byte, markSize), 0
	err := retry(func() (err error) {
		n, err = get(b)
		return err
	})
	if err == unix.ENOTSUP {
		b, err = os.ReadFile(markFile(path))
		n = len(b)
	}
	if err != nil || n != markSize {
		return nil
	}
	return b
}

// Mark implements [backend.Marked]. The mark is made when Open creates the file.
func (s *Store) Mark() []byte { return s.marked }

// Created reports whether Open has created the file.
func (s *Store) Created() bool { return s.created }

// Detached implements [backend.Detacher].
func (s *Store) Detached() (why error) {
	err := s.Stat(func(fd int) error {
		var open, named unix.Stat_t
		if err := unix.Fstat(fd, &open); err != nil {
			return err
		}
		err := retry(func() error { return unix.Stat(s.path, &named) })
		switch {
		case open.Nlink == 0 && err == nil:
			why = fmt.Errorf("%s was replaced by another file while it is served: the content of the served file is lost when the target closes it; "+
				"before that, copy it from /proc/%d/fd/%d", s.path, os.Getpid(), fd)
		case open.Nlink == 0:
			why = fmt.Errorf("%s was removed while it is served: its content is lost when the target closes it; before that, copy it from /proc/%d/fd/%d",
				s.path, os.Getpid(), fd)
		case errors.Is(err, unix.ENOENT):
			why = fmt.Errorf("%s was moved while it is served, or its file system was unmounted: move it back, or mount the file system again", s.path)
		case err == nil && (named.Dev != open.Dev || named.Ino != open.Ino):
			why = fmt.Errorf("%s was replaced by another file while it is served: move the served file back", s.path)
		}
		return nil
	})
	if err != nil {
		return nil // it is closed, or the file system does not answer
	}
	return why
}
