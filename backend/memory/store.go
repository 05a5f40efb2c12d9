// Package memory implements a store in RAM: one mapping outside the Go heap, whose pages are populated when first
// written and freed when deallocated. The content ends with the process, unless another process takes over a movable
// store. Flush and force unit access do nothing.
//
// Submit executes operations directly. The exceptions are operations whose blocks another queue or a lease holds, and
// the later parts of long OpWriteZeroes and OpDeallocate requests. Those advance with each Poll, so that no call spends
// more than a few tens of microseconds on them.
package memory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

// Config configures a memory store. A zero field selects the default.
type Config struct {
	Size      int64 // bytes, required; rounded down to whole blocks
	BlockSize int   // 512 or 4096, the default

	// Pinned says that a device refers to the physical pages, as an RNIC does once the memory is registered with it.
	// Deallocated blocks are then zeroed in place, since newly populated pages would differ from the device's.
	Pinned bool

	// Pool holds the memory, so that another process can take it over; nil: the memory ends with this process. Memory
	// in a pool takes about twice as long to populate, unless /sys/kernel/mm/transparent_hugepage/shmem_enabled says
	// advise, within_size or always: only then can it have huge pages. A lease for reading populates blocks that were
	// never written.
	Pool *Pool
}

// Store implements [backend.Store], [backend.Leaser] and [backend.Marked].
type Store struct {
	info   backend.Info
	pinned bool
	pool   *Pool  // nil: the memory ends with the process
	at     layout // in the pool
	mapped []byte // the whole mapping
	memory []byte // whole pages
	guards []byte // the words that guard blocks
	blocks *stripe.Table
	used   pages
	mark   [16]byte
	opened time.Time

	regions []returned

	mu     sync.Mutex // serializes opening and closing
	queues int
	closed bool
}

// New maps the memory. Nothing is populated yet, and the mapping reserves no swap: if the machine runs out of memory
// later, the kernel kills a process.
func New(cfg Config) (*Store, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Pool != nil {
		err = s.create()
	} else {
		err = s.mapAnonymous()
	}
	if err != nil {
		return nil, err
	}
	s.finish()
	return s, nil
}

// prepare returns a store without its memory.
func prepare(cfg Config) (*Store, error) {
	if cfg.BlockSize == 0 {
		cfg.BlockSize = 4096
	}
	if cfg.BlockSize != 512 && cfg.BlockSize != 4096 {
		return nil, fmt.Errorf("memory store: block size %d: must be 512 or 4096", cfg.BlockSize)
	}
	size := cfg.Size &^ int64(cfg.BlockSize-1)
	page := int64(os.Getpagesize())
	if size <= 0 || size > math.MaxInt-8*page-region-stripe.Bytes(size)-8*int64(wordsOf(size)) {
		return nil, fmt.Errorf("memory store: size %d: must be at least one block of %d bytes and fit the address space",
			cfg.Size, cfg.BlockSize)
	}
	return &Store{
		info: backend.Info{
			Size:       size,
			BlockSize:  cfg.BlockSize,
			Alignment:  1,
			Optimal:    4096,
			Deallocate: !cfg.Pinned,
			Compare:    true,
		},
		pinned: cfg.Pinned,
		pool:   cfg.Pool,
		opened: time.Now(),
	}, nil
}

// mapAnonymous maps memory that ends with the process. The words that guard the blocks follow it. Neither is populated
// in an idle store.
func (s *Store) mapAnonymous() (err error) {
	whole := wholePages(s.info.Size)
	if s.mapped, err = anonymous(whole + s.guardBytes()); err != nil {
		return fmt.Errorf("memory store: map %d bytes: %w", s.info.Size, err)
	}
	s.memory, s.guards = s.mapped[:whole:whole], s.mapped[whole:]
	s.used = newPages(s.info.Size)
	_, _ = rand.Read(s.mark[:]) // it never fails
	return nil
}

// finish completes the opening of a store that has its memory.
func (s *Store) finish() {
	advised := s.memory
	if s.pool != nil {
		advised = s.mapped // as a whole it counts as one mapping of the process (vm.max_map_count)
	}
	// Both are advice: without them the store is slower and its core dumps are larger.
	_ = unix.Madvise(advised, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(advised, unix.MADV_DONTDUMP)
	s.blocks = stripe.NewIn(s.info.Size, s.guards)
	s.regions = make([]returned, (s.info.Size+region-1)/region)
}

func (s *Store) guardBytes() int64 { return stripe.Bytes(s.info.Size) }

func anonymous(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
}

// wholePages rounds n up to whole pages of the operating system.
func wholePages(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) &^ (page - 1)
}

// Info implements [backend.Store].
func (s *Store) Info() backend.Info { return s.info }

// Allocated counts what was written and not deallocated, in units of 4 KiB.
func (s *Store) Allocated() (int64, error) {
	return min(s.used.bytes(), s.info.Size), nil
}

// Memory implements [backend.Leaser].
func (s *Store) Memory() []byte { return s.memory[:s.info.Size] }

// TryLease implements [backend.Leaser]. An exclusive lease counts as a write.
func (s *Store) TryLease(offset, length int64, exclusive bool) bool {
	if s.blocks.Try(offset, length, exclusive) != stripe.Taken {
		return false
	}
	if exclusive {
		s.used.set(offset, length)
	}
	return true
}

// Release implements [backend.Leaser].
func (s *Store) Release(offset, length int64, exclusive bool) {
	s.blocks.Release(offset, length, exclusive)
}

// NewQueue implements [backend.Store].
func (s *Store) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if depth <= 0 {
		return nil, fmt.Errorf("memory store: queue depth %d: must be at least 1", depth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, backend.ErrClosed
	}
	s.queues++
	return newQueue(s, depth, notify), nil
}

func (s *Store) queueClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues--
}

// Close unmaps the memory, which must not be accessed afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.queues > 0 {
		return fmt.Errorf("memory store: %d queues are open: close them first", s.queues)
	}
	s.closed = true
	if s.pool == nil {
		return unix.Munmap(s.mapped)
	}
	return errors.Join(unix.Munmap(s.mapped), unix.Munmap(s.guards), s.pool.giveBack(s.at))
}

// Mark implements [backend.Marked]. Every store has its own mark.
func (s *Store) Mark() []byte { return s.mark[:] }
