package memory

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Pool is a file in memory (memfd_create(2)) for stores that another process can take over. One descriptor covers all
// of them. The zero value is ready for use; the file is created with the first store.
//
// The file is sparse, and its fixed size is larger than any process needs. Each store has its own range, after those of
// all earlier stores. The memory of a closed store is freed.
type Pool struct {
	mu     sync.Mutex // guards the fields below
	file   *os.File   // nil: not created yet
	end    int64      // of the ranges of all stores, past and present
	shared bool       // another process may still take over what is in the file
	closed bool
}

// seals prevent every process from resizing the file: a process that had it mapped would be killed by SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// poolSize is the size of the file. On 32-bit systems mmap2(2) counts pages in 32 bits, which is 16 TiB.
const poolSize = 1<<62*(wordSize/8) + 1<<43*(1-wordSize/8)

const wordSize = int64(unsafe.Sizeof(uintptr(0)))

// OpenPool returns the pool of a file and an end that [Pool.File] returned in another process. The file remains the
// caller's. The other process may still continue with the stores itself, so closing a store frees no memory before
// [Pool.Own].
func OpenPool(f *os.File, end int64) (*Pool, error) {
	if got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return nil, errors.New("memory store: the file does not contain movable memory stores")
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	if end < 0 || end != wholePages(end) || end > info.Size() {
		return nil, fmt.Errorf("memory store: invalid number of bytes in use: the file has %d bytes, %d are given as in use", info.Size(), end)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	return &Pool{file: os.NewFile(uintptr(fd), fileName), end: end, shared: true}, nil
}

// File returns the file with the memory of the stores, for [OpenPool] in another process. That process finds the stores
// at [Store.Offset] and uses the space from end on for new ones. f is nil if there never was a store. The pool owns the
// file, which is valid until the pool is closed. The other process must not change the content before the queues of
// this process are closed.
func (p *Pool) File() (f *os.File, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.file, p.end
}

// Own declares that no other process will take over what is in the file.
func (p *Pool) Own() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared = false
}

// Close closes the file. Stores remain usable until they are closed. Memory that was not freed by then lasts until the
// last process closes the file.
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

// create creates the file. It is called with mu held.
func (p *Pool) create() error {
	fd, err := unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), fileName)
	size := poolSize
	var limit unix.Rlimit // beyond it SIGXFSZ kills the process
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

// place allocates an empty range for a store.
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
		return fmt.Errorf("memory stores use %d bytes, including those freed before, and the limit is %d (LimitFSIZE)", p.end, info.Size())
	}
	// A process that also had the file and has ended may have left something.
	if err := punch(p.file, l); err != nil {
		return err
	}
	s.at, p.end = l, l.end
	return nil
}

// giveBack frees the memory of a store, unless another process may take it over.
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
