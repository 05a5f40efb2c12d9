package file

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// served does the I/O.
type served = disk.Disk

// Store implements [backend.Store], [backend.Resizer], [backend.Latcher],
// [backend.Roomer], [backend.StorageKeeper], [backend.Marked] and [backend.Detacher] on a regular file.
type Store struct {
	*served // nil until the file is prepared

	path   string
	cfg    Config
	fd     int
	direct bool
	notes  []string
	slow   string // one of EngineNotes, or empty

	allocation allocation
	sharing    sharing

	marked    []byte // nil: no mark
	created   bool
	reserving time.Duration
}

// Notes returns sentences for an administrator about what is not as configured, and why. They have no initial capital
// and no full stop. One may be added while the file is open.
func (s *Store) Notes() []string {
	notes := slices.Concat(s.notes, s.EngineNotes())
	if s.sharing.found.Load() {
		notes = append(notes, sharedNote)
	}
	return notes
}

// EngineNotes returns those of Notes that concern how the machine does the I/O. They do not concern what is exported.
func (s *Store) EngineNotes() []string {
	if s.slow != "" {
		return append(s.served.Notes(), s.slow)
	}
	return s.served.Notes()
}

// Direct reports whether I/O bypasses the page cache.
func (s *Store) Direct() bool { return s.direct }

// Allocated returns the storage of the file in bytes: less than its size if it has holes.
func (s *Store) Allocated() (n int64, err error) {
	err = s.Stat(func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("stat %s: %w", s.path, err)
		}
		n = st.Blocks * 512
		return nil
	})
	return n, err
}

// Room implements [backend.Roomer]. Free space is what users other than root can use.
func (s *Store) Room() (free, total int64, err error) {
	err = s.Stat(func(fd int) error {
		var st unix.Statfs_t
		if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
			return fmt.Errorf("stat the file system of %s: %w", s.path, err)
		}
		free, total = int64(st.Bavail)*unitOf(&st), int64(st.Blocks)*unitOf(&st)
		return nil
	})
	return free, total, err
}

// unitOf returns the unit in which a file system counts its blocks. Bsize is the best size of transfers, which differs in
// some file systems (FUSE).
func unitOf(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return int64(st.Frsize)
	}
	return int64(st.Bsize)
}

// measure returns the present size.
func (s *Store) measure() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}
