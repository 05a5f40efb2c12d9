package file

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A stock is the storage that a file has.
type stock struct {
	mu   sync.Mutex
	lost int64 // bytes, as they were found last

	// Of a file that had all its storage.
	whole  int64 // bytes that had some, as far as the file was never seen shorter; 0: they need not keep it
	before int64 // what was missing when it was looked at last

	// Of one that has what was written.
	sparse bool
	known  bool  // what follows is so
	has    int64 // bytes
	size   int64 // of the file
	freed  int64 // by how many calls of its own
}

// takeStock notes the storage of a file, on a file system where none of it goes but by truncation and
// punching: others may compress what is written, or do without zeroes. Of a file with holes XFS, and tmpfs with large pages, have more
// than is needed for a while.
func (s *Store) takeStock() {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(s.fd, &st) != nil || retry(func() error { return unix.Fstatfs(s.fd, &fs) }) != nil {
		return
	}
	k := &s.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	all := !s.cfg.Thin && !sparse(&st)
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC: // ext2 and ext3 have that number too
		k.sparse = !all
	case unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return
	}
	if all {
		k.whole = st.Size
	}
}

// Missing implements [backend.StorageKeeper], also of a file with holes, as far as what a host gives back does not
// hide it.
func (s *Store) Missing() (int64, error) {
	k := &s.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.whole = min(k.whole, s.Info().Size); s.Copied() { // who looks at the size knows what is behind the end
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
	case steady: // at two looks, if a file system should do something in steps
		now := max(0, k.whole-has)
		k.lost, k.before = min(now, k.before), now
	}
	return k.lost, nil
}

// slack is what a file system may do without when it puts the list of a file's extents together, in bytes.
const slack = 64 << 10

// compare counts what is gone since the last look of a file with holes, if it has not given back any itself and was not seen shorter.
func (k *stock) compare(has, size, freed int64, sure bool) {
	if sure && k.known && freed == k.freed && size >= k.size && has < k.has-slack {
		k.lost += k.has - has
	}
	k.known, k.has, k.size, k.freed = sure, has, size, freed
}
