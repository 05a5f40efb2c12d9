package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
	"github.com/nvmeof-go/nvmeof/backend/internal/inuse"
)

// Open opens or creates the file at path. If it fails it removes a file that it created; a file that it extended stays
// extended.
func Open(path string, cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{path: path, cfg: cfg}
	created, err := s.openFile()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.prepare(created); err != nil {
		var locked *LockedError // then the file belongs to the holder
		var busy *inuse.Error
		if created && !errors.As(err, &locked) && !errors.As(err, &busy) && !errors.Is(err, unix.ENOENT) { // it may belong to another process by now
			_ = os.Remove(path)
			if at := MarkFile(path); at != "" {
				_ = os.Remove(at)
			}
		}
		_ = unlockAndClose(s.fd)
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

// openFile creates a missing file only if a size is given.
func (s *Store) openFile() (created bool, err error) {
	// Before opening, since opening a device or a FIFO may have side effects.
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is a %s, not a regular file", s.path, kindOf(info.Mode()))
	}
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK // in case it becomes a FIFO
	if s.cfg.ReadOnly {
		flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	}
	s.fd, err = openRetry(s.path, flags)
	if err == unix.ENOENT && s.cfg.Size > 0 {
		s.fd, err = openRetry(s.path, flags|unix.O_CREAT|unix.O_EXCL)
		created = true
	}
	switch err {
	case nil:
		return created, nil
	case unix.ENOENT:
		remedy := "give a size to create it"
		if created {
			remedy = "create its directory first"
		}
		return false, fmt.Errorf("%w: %s", &fs.PathError{Op: "open", Path: s.path, Err: err}, remedy)
	case unix.EROFS:
		remedy := "mount it read-write, or open the file read-only"
		if created {
			remedy = "mount it read-write, or use another directory"
		}
		return false, fmt.Errorf("%w: %s", &fs.PathError{Op: "open", Path: s.path, Err: err}, remedy)
	case unix.EACCES, unix.EPERM:
		return false, fmt.Errorf("%w: %s", &fs.PathError{Op: "open", Path: s.path, Err: err}, s.permit(created))
	}
	return false, &fs.PathError{Op: "open", Path: s.path, Err: err}
}

// permit says how to allow this user to open the file.
func (s *Store) permit(created bool) string {
	dir, user := filepath.Dir(s.path), os.Getuid()
	switch {
	case created:
		return fmt.Sprintf("user %d may not create files in %s: chown or chmod it", user, dir)
	case s.cfg.ReadOnly:
		return fmt.Sprintf("user %d may not read it: chown or chmod it, and make the directories above it accessible to that user", user)
	}
	return fmt.Sprintf("user %d may not read and write it: chown or chmod it, and make the directories above it accessible to that user, or open it read-only", user)
}

func openRetry(path string, flags int) (int, error) {
	for {
		// Only the owner may access what hosts store: mode 0600.
		fd, err := unix.Open(path, flags, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeCharDevice != 0:
		return "character device"
	case m&fs.ModeDevice != 0:
		return "block device"
	}
	return "special file"
}

// prepare initializes the store from the open file.
func (s *Store) prepare(created bool) error {
	if err := s.confirm(); err != nil {
		return err
	}
	if err := lock(s.fd, s.path, s.cfg.ReadOnly); err != nil {
		return err
	}
	if err := s.present(); err != nil {
		return err
	}
	if err := s.alone(); err != nil {
		return err
	}
	if s.created = created; created {
		s.mark()
	} else {
		s.readMark()
	}
	began := time.Now()
	if err := s.allocate(created); err != nil {
		return err
	}
	s.reserving = time.Since(began)
	info, err := s.info(s.setDirect())
	if err != nil {
		return err
	}
	if !created {
		s.noteSize(info)
		s.lookInside()
	}
	s.served, err = disk.New(disk.Config{
		Options: s.options(), Name: s.path, FD: s.fd, Info: info,
		Direct: s.direct, PunchZeroes: s.cfg.Thin, Allocates: info.Deallocate || !info.ReadOnly && s.mayAllocate(info.Copy),
		Measure: s.measure, Allocating: s.newlyShared, Release: func() error { return unlockAndClose(s.fd) },
	})
	if err == nil {
		s.recordAllocation()
	}
	return err
}

// noteSize notes the part of the file that is served although it exceeds the given size, and the part that is not
// served.
func (s *Store) noteSize(info backend.Info) {
	if 0 < s.cfg.Size && s.cfg.Size < info.Size {
		s.note(fmt.Sprintf("the file has %d bytes, more than the configured size of %d, and is served whole: existing files are never truncated", info.Size, s.cfg.Size))
	}
	if left := info.Size % int64(info.BlockSize); left > 0 {
		s.note(fmt.Sprintf("the last %d bytes of the file are less than a block of %d and are not served", left, info.BlockSize))
	}
}

// options returns the configured options, except those that the file system handles badly.
func (s *Store) options() disk.Options {
	o := s.cfg.options()
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(s.fd, &st) })
	if err == nil && st.Type == unix.FUSE_SUPER_MAGIC && o.Engine == EngineAuto {
		// The kernel assumes that such a file supports non-blocking I/O, since it can be polled. A submission then
		// blocks until the other process has answered.
		o.Engine = EngineThreads
		s.slow = "threads do the file's I/O, because io_uring blocks on a file system that is served by a process (FUSE)"
	}
	return o
}

// confirm checks the opened file, which may have been replaced since it was checked by name.
func (s *Store) confirm() error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is no longer a regular file")
	}
	// With O_NONBLOCK io_uring would fail where it has to wait.
	return unix.SetNonblock(s.fd, false)
}

// present refuses a file that another process removed before this one locked it, as a process does with a file that it
// created but could not serve. What hosts wrote to the file would be lost.
func (s *Store) present() error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		return fmt.Errorf("%w: it was removed while it was being opened: try again", &fs.PathError{Op: "open", Path: s.path, Err: unix.ENOENT})
	}
	return nil
}

// alone looks for users of the file that are not targets like this one.
func (s *Store) alone() error {
	var busy *inuse.Error
	err := inuse.Lock(s.fd, s.path, s.cfg.ReadOnly)
	if err != nil && !errors.As(err, &busy) {
		return err
	}
	if busy == nil {
		busy = inuse.File(s.fd, s.path, s.cfg.ReadOnly)
	}
	switch {
	case busy == nil:
	case s.cfg.Force:
		s.note(busy.Note())
	default:
		return busy
	}
	return nil
}

// lookInside notes a file whose format is not a raw disk image. It reads like a host, so that nothing remains cached.
func (s *Store) lookInside() {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return
	}
	defer unix.Munmap(page)
	n := 0
	err = retry(func() (err error) {
		n, err = unix.Pread(s.fd, page, 0)
		return err
	})
	if err != nil {
		return // hosts will find out
	}
	if what := inuse.Format(page[:n]); what != "" {
		s.note(what)
	}
}

// allocate gives the file its size and its storage.
func (s *Store) allocate(created bool) error {
	if s.cfg.Size == 0 {
		return nil
	}
	size, err := s.measure()
	if err != nil {
		return err
	}
	if err := s.reserve(size, max(size, s.cfg.Size), s.fsync); err != nil {
		return err
	}
	if created {
		return s.persistName()
	}
	return nil
}

func (s *Store) fsync() error {
	if err := unix.Fsync(s.fd); err != nil {
		return fmt.Errorf("fsync: %w", err)
	}
	return nil
}

// persistName makes the name of a new file and of its mark file durable.
func (s *Store) persistName() error {
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// openError makes a full disk recognizable to callers of Open.
func openError(err error) error {
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return fmt.Errorf("%w (%w)", backend.ErrNoSpace, err)
	}
	return err
}

func (s *Store) note(text string) { s.notes = append(s.notes, text) }

// retry repeats a call that was interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
