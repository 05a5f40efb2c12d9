package file

import (
	"sync"

	"golang.org/x/sys/unix"
)

// An allocation records the storage that a file has.
type allocation struct {
	mu   sync.Mutex
	lost int64 // bytes, at the last check

	// For a file that was fully allocated.
	whole  int64 // bytes that had storage, less what a shorter size cut off; 0: not tracked
	before int64 // what was missing at the last check

	// For a file with storage only for what was written.
	sparse bool
	known  bool  // the fields below are valid
	has    int64 // bytes of storage
	size   int64 // of the file
	freed  int64 // number of own calls that freed storage
}

// recordAllocation records the storage of a file. It does so only on file systems where storage is lost only by truncation and
// hole punching; others may compress data or store no zeroes. For a file with holes it excludes XFS, and tmpfs with
// large pages, which temporarily have more storage than needed.
func (s *Store) recordAllocation() {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(s.fd, &st) != nil || retry(func() error { return unix.Fstatfs(s.fd, &fs) }) != nil {
		return
	}
	k := &s.allocation
	k.mu.Lock()
	defer k.mu.Unlock()
	all := !s.cfg.Thin && !sparse(&st)
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC: // also that of ext2 and ext3
		k.sparse = !all
	case unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return
	}
	if all {
		k.whole = st.Size
	}
}

// Missing implements [backend.StorageKeeper]. For a file with holes, deallocation by hosts may hide a loss.
func (s *Store) Missing() (int64, error) {
	k := &s.allocation
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.whole = min(k.whole, s.Info().Size); s.Copied() { // a program that reads the size knows what is beyond the end
		k.whole = 0
	}
	if k.whole == 0 && !k.sparse {
		return 0, nil
	}
	var has, size int64
	var err error
	freed, steady := s.Steady(func() {
		if has, err = s.Allocated(); err == nil {
			err = s.Stat(func(int) (err error) { size, err = s.measure(); return err })
		}
	})
	if err != nil {
		return 0, err
	}
	switch {
	case k.sparse:
		k.compare(has, size, freed, steady && size >= s.Info().Size)
	case steady: // at two checks, in case a file system works in steps
		now := max(0, k.whole-has)
		k.lost, k.before = min(now, k.before), now
	}
	return k.lost, nil
}

// slack is how many bytes a file system may save when it merges the list of a file's extents.
const slack = 64 << 10

// compare adds to lost what a file with holes lost since the last check. It counts only if the store freed nothing
// itself and the file was not seen shorter.
func (k *allocation) compare(has, size, freed int64, sure bool) {
	if sure && k.known && freed == k.freed && size >= k.size && has < k.has-slack {
		k.lost += k.has - has
	}
	k.known, k.has, k.size, k.freed = sure, has, size, freed
}
