package file

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// reserveStep is how many bytes one fallocate(2) allocates. File systems lock the file until it is done, and its I/O
// waits for that.
const reserveStep = 256 << 20

// Reserving returns how long Open took to give the file its size and its storage.
func (s *Store) Reserving() time.Duration { return s.reserving }

// reserve extends the file from its present size, unless that is the wanted one, and makes the new size durable with
// sync. A program that opens the file later and knows its size must not find it shorter.
func (s *Store) reserve(present, want int64, sync func() error) error {
	if err := s.lengthen(present, want); err != nil || present == want {
		return err
	}
	return sync()
}

// lengthen allocates the file's storage up to the wanted size, unless the store is thin, and then gives it that size,
// all at once: whoever reads the size meanwhile must not find one that may be taken back.
func (s *Store) lengthen(present, want int64) error {
	if !s.cfg.Thin {
		if err := s.roomFor(want); err != nil {
			return fmt.Errorf("preallocate %d bytes: %w", want, err)
		}
		switch err := s.preallocate(present, want); err {
		case nil:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			s.note("its file system cannot preallocate: writes may run out of space")
		default:
			return fmt.Errorf("preallocate %d bytes: %w", want, openError(err))
		}
	}
	if now, err := s.measure(); err == nil && now >= want { // by fallocate(2), or another program
		return nil
	}
	if err := retry(func() error { return unix.Ftruncate(s.fd, want) }); err != nil {
		return fmt.Errorf("extend to %d bytes: %w", want, openError(err))
	}
	return nil
}

// preallocate allocates the first n bytes. Where the file system can do that, the file keeps its size.
func (s *Store) preallocate(present, n int64) error {
	for at := int64(0); at < n; at += reserveStep {
		err := retry(func() error {
			return unix.Fallocate(s.fd, unix.FALLOC_FL_KEEP_SIZE, at, min(reserveStep, n-at))
		})
		if err == unix.EOPNOTSUPP && at == 0 { // NFS cannot
			if err = retry(func() error { return unix.Fallocate(s.fd, 0, 0, n) }); err != nil {
				_ = unix.Ftruncate(s.fd, present)
			}
			return err
		}
		if err != nil {
			s.takeBack(present, n)
			return err
		}
	}
	return nil
}

// takeBack frees what was allocated beyond the present size, unless another program has changed that.
func (s *Store) takeBack(present, end int64) {
	if now, err := s.measure(); err != nil || now != present {
		return
	}
	_ = unix.Ftruncate(s.fd, present)
	if end > present { // Btrfs keeps storage beyond the end of a file that has its size already
		_ = unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, present, end-present)
	}
}

// roomFor returns an error if the file system does not have enough free space. Some file systems, when asked to
// preallocate too much, take all free space from every other user before they fail.
func (s *Store) roomFor(want int64) error {
	var has unix.Stat_t
	var all unix.Statfs_t
	if unix.Fstat(s.fd, &has) != nil || retry(func() error { return unix.Fstatfs(s.fd, &all) }) != nil || all.Blocks == 0 || unitOf(&all) <= 0 {
		return nil // the file system will report it
	}
	free := all.Bavail
	if os.Geteuid() == 0 {
		free = all.Bfree
	}
	missing := uint64(want - min(want, int64(has.Blocks)*512))
	if missing/uint64(unitOf(&all)) <= free {
		return nil
	}
	switch retry(func() error { return unix.Fallocate(s.fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1) }) {
	case unix.EOPNOTSUPP, unix.ENOSYS: // it preallocates nothing
		return nil
	}
	return fmt.Errorf("%w: %d bytes are free: free some space, or make the file thin: writes then fail when the file system is full", openError(unix.ENOSPC), free*uint64(unitOf(&all)))
}

// Extend makes the file longer, which Refresh detects; a file that is long enough is unchanged. Like Open it allocates
// what is added unless the store is thin. A file that is no longer at its path is not extended, since another file may
// be there.
func (s *Store) Extend(size int64) (err error) {
	if why := s.Detached(); why != nil {
		return why
	}
	longer := &Store{path: s.path, cfg: s.cfg}
	err = s.Stat(func(fd int) (err error) { // only the duplicate is used while the file is extended, which may take long
		longer.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err == nil {
		err = errors.Join(longer.extend(size, func() error { return s.Sync(longer.fsync) }), unix.Close(longer.fd))
	}
	if missing, _ := s.Missing(); err == nil && missing == 0 {
		_ = s.Stat(func(int) error { s.recordAllocation(); return nil }) // what was added has its storage too
	}
	if err != nil {
		return fmt.Errorf("extend %s: %w", s.path, err)
	}
	return nil
}

func (s *Store) extend(size int64, sync func() error) error {
	present, err := s.measure()
	if err != nil || present >= size {
		return err
	}
	return s.reserve(present, size, sync)
}
