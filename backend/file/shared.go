package file

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sharing says whether a file that has all its storage may need more for a write, since other files have its blocks
// too: cp(1) copies a file by sharing blocks where the file system can (reflink), and so do copies within the file.
type sharing struct {
	look    bool        // the file system can share blocks, and none were found shared when the file was opened
	found   atomic.Bool // some are shared now
	mu      sync.Mutex
	next    uint64 // offset where the next look begins; guarded by mu
	extents extents
}

const (
	sharedNote    = "other files, or other parts of it, share its blocks: writes may run out of space"
	rewritingNote = "its file system writes to new places only: writes may run out of space"
)

// extents are the argument of the ioctl(2) FS_IOC_FIEMAP: struct fiemap, with room for some extents.
type extents struct {
	start, length uint64
	flags         uint32
	mapped, room  uint32
	_             uint32
	list          [64]extent
}

// An extent is struct fiemap_extent.
type extent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

const (
	fiemap       = 0xc020660b // FS_IOC_FIEMAP
	extentLast   = 0x1        // FIEMAP_EXTENT_LAST
	extentShared = 0x2000     // FIEMAP_EXTENT_SHARED
)

// rewrites reports whether a type of file system stores what is written in another place than what it replaces, so that
// each write needs storage that the file does not have.
func rewrites(fs uint32) bool {
	switch fs {
	case unix.BTRFS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1 // of OpenZFS, which is not in Linux

// mayAllocate reports whether a write may need storage although the file is fully allocated. shares says that the file
// system can share blocks.
func (s *Store) mayAllocate(shares bool) bool {
	var fs unix.Statfs_t
	_ = retry(func() error { return unix.Fstatfs(s.fd, &fs) })
	switch {
	case rewrites(uint32(fs.Type)):
		s.note(rewritingNote)
		return true
	case !shares:
		return false
	case fs.Type != unix.XFS_SUPER_MAGIC: // such as overlayfs on Btrfs, or NFS: it is not known what is below
		return true
	}
	for {
		if s.sharing.step(s.fd) {
			s.sharing.found.Store(true)
			return true
		}
		if s.sharing.next == 0 {
			s.sharing.look = true
			return false
		}
	}
}

// step looks at some extents, in the order of the file, and reports whether one is shared. After the last one it
// begins again.
func (h *sharing) step(fd int) (shared bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &h.extents
	*x = extents{start: h.next, length: ^uint64(0) - h.next, room: uint32(len(x.list))}
	h.next = 0
	err := retry(func() error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemap, uintptr(unsafe.Pointer(x))); errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil { // the file system cannot tell
		return false
	}
	for _, e := range x.list[:min(int(x.mapped), len(x.list))] {
		if e.flags&extentShared != 0 {
			return true
		}
		if h.next = e.logical + e.length; e.flags&extentLast != 0 {
			h.next = 0
		}
	}
	return false
}

// newlyShared looks whether another program has made a copy of the file that shares its blocks: at a few of them each
// time, which is enough for a copy of the whole file.
func (s *Store) newlyShared(fd int) bool {
	h := &s.sharing
	if h.look && !h.found.Load() && h.step(fd) {
		h.found.Store(true)
	}
	return h.found.Load()
}
