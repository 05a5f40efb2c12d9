package memory

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Pool is a file of memory (memfd_create(2)) in which stores lie that another process can go on
// with: one descriptor is enough for all of them. Its zero value is ready for use, and has no file
// before its first store.
//
// The file is sparse, of a fixed size that no process reaches. A store has a range of its own,
// which begins behind all that there were before, and the memory of one that is closed is given back.
type Pool struct {
	mu     sync.Mutex // guards what follows
	file   *os.File   // nil: there is none yet
	end    int64      // of the ranges that stores have, or had
	shared bool       // another process may yet go on with what is in the file
	closed bool
}

// seals keep everybody from making the file another size: who had it mapped would be ended by SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// poolSize is the size of the file. With 32 bits mmap2(2) counts pages in 32 bits, which 16 TiB have.
const poolSize = 1<<62*(wordSize/8) + 1<<43*(1-wordSize/8)

const wordSize = int64(unsafe.Sizeof(uintptr(0)))

// OpenPool returns the pool of a file that [Pool.File] has returned in another process, with the
// end that it has returned. The file stays the caller's. The other process may still go on with it
// itself: closing a store gives nothing back before [Pool.Own].
func OpenPool(f *os.File, end int64) (*Pool, error) {
	if got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return nil, errors.New("memory store: the file is not one of movable memory stores")
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	if end < 0 || end != wholePages(end) || end > info.Size() {
		return nil, fmt.Errorf("memory store: a file of %d bytes of which %d are in use", info.Size(), end)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	return &Pool{file: os.NewFile(uintptr(fd), fileName), end: end, shared: true}, nil
}

// File is the memory of the stores, for [OpenPool] in another process, which finds them where
// [Store.Offset] says and uses what is behind end for others; nil: there never was a store. It is the
// pool's, and valid until that is closed. The other process must not change what is in it before the queues of this one
// are closed.
func (p *Pool) File() (f *os.File, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.file, p.end
}

// Own says that nobody else goes on with what is in the file.
func (p *Pool) Own() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared = false
}

// Close closes the file. Stores can be used until they are closed, and what was not given back until
// then is kept for as long as any process has the file.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.file == nil {
		p.closed = true
		return nil
	}
	p.closed = true
	return p.file.Close()
}

const fileName = "nvmeof-memory"

// create makes the file. Called with mu held.
func (p *Pool) create() error {
	fd, err := unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), fileName)
	size := poolSize
	var limit unix.Rlimit // beyond it SIGXFSZ ends the process
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && limit.Cur < uint64(size) {
		size = int64(limit.Cur)
	}
	err = unix.Ftruncate(fd, size)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.file = f
	return nil
}

// place finds a range for a store, of which nothing is there.
func (p *Pool) place(s *Store) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	if p.file == nil {
		if err := p.create(); err != nil {
			return err
		}
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	l := s.layout(p.end)
	if l.end > info.Size() || l.end < l.offset { // overflow
		return fmt.Errorf("%d bytes of memory for all stores are in use, or were, and %d are the most (LimitFSIZE)", p.end, info.Size())
	}
	// A process that has had the file too, and has ended, may have left something.
	if err := punch(p.file, l); err != nil {
		return err
	}
	s.at, p.end = l, l.end
	return nil
}

// giveBack gives back all that a store has, unless somebody else may go on with it.
func (p *Pool) giveBack(l layout) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.shared {
		return nil
	}
	return punch(p.file, l)
}

func punch(f *os.File, l layout) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, l.offset, l.end-l.offset)
}
