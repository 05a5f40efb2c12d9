package file

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A stock is the storage that a file had.
type stock struct {
	mu     sync.Mutex
	whole  int64 // bytes that had storage, as far as the file was never seen shorter; 0: they need not keep it
	before int64 // what was missing when it was looked at last
}

// takeStock notes the storage of a file that has all, on a file system where none of it goes but by truncation and
// punching: others may compress what is written, or do without zeroes.
func (s *Store) takeStock() {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if s.cfg.Thin || unix.Fstat(s.fd, &st) != nil || sparse(&st) || retry(func() error { return unix.Fstatfs(s.fd, &fs) }) != nil {
		return
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC: // ext2 and ext3 have the number of ext4
		s.stock.mu.Lock()
		s.stock.whole = st.Size
		s.stock.mu.Unlock()
	}
}

// Missing implements [backend.Preallocated]: what was missing at two looks, since XFS exchanges storage of a copy in steps.
func (s *Store) Missing() (n int64, err error) {
	k := &s.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.whole = min(k.whole, s.Info().Size); k.whole == 0 { // who looks at that knows what is behind the end
		return 0, nil
	}
	var has int64
	steady := s.Steady(func() { has, err = s.Allocated() })
	if err != nil || !steady {
		return 0, err
	}
	now := max(0, k.whole-has)
	n, k.before = min(now, k.before), now
	return n, nil
}
