// Package memory is a store in RAM: one mapping outside the Go heap,
// whose pages are populated when first written and given back when deallocated.
// Nothing survives the process, unless another takes a movable store over from it; Flush and
// force unit access have nothing to do.
//
// Operations are carried out inside Submit, except where another queue or a
// lease holds their blocks, and except for the later parts of long
// OpWriteZeroes and OpDeallocate requests: these advance with each Poll, so that
// no call takes longer than a few tens of microseconds for them.
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

// Config describes a memory store. A zero field takes the default.
type Config struct {
	Size      int64 // bytes, required; rounded down to whole blocks
	BlockSize int   // 512 or 4096, the default

	// Pinned says that a device holds the pages themselves, as an RNIC does once
	// the memory is registered with it. Deallocated blocks are then zeroed in
	// place, since pages populated anew would be others than the device's.
	Pinned bool

	// Pool is where the memory lies, so that another process can go on with it; nil: it ends with this
	// one. Such memory takes about twice as long to populate, since the kernel has huge
	// pages for it only where /sys/kernel/mm/transparent_hugepage/shmem_enabled says advise, within_size
	// or always; and blocks that nobody has written are populated by a lease to read.
	Pool *Pool
}

// Store implements [backend.Store], [backend.Leaser] and [backend.Marked].
type Store struct {
	info   backend.Info
	pinned bool
	pool   *Pool  // nil: the memory ends with the process
	at     layout // in the pool
	mapped []byte // all of the mapping
	memory []byte // whole pages
	guards []byte // the words of blocks
	blocks *stripe.Table
	used   pages
	mark   [16]byte
	opened time.Time

	regions []returned

	mu     sync.Mutex // opening and closing
	queues int
	closed bool
}

// New maps the memory. Nothing of it is populated yet, and the mapping reserves
// no swap: a machine that runs out of memory later kills a process.
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

// prepare makes a store without its memory.
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

// mapAnonymous maps memory that ends with the process. The words that guard the blocks lie
// behind those: of an idle store neither is there.
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

// finish is the end of opening a store that has its memory.
func (s *Store) finish() {
	advised := s.memory
	if s.pool != nil {
		advised = s.mapped // as a whole it counts once among the mappings of a process (vm.max_map_count)
	}
	// Both are advice: without them the store is slower, its core dumps larger.
	_ = unix.Madvise(advised, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(advised, unix.MADV_DONTDUMP)
	s.blocks = stripe.NewIn(s.info.Size, s.guards)
	s.regions = make([]returned, (s.info.Size+region-1)/region)
}

func (s *Store) guardBytes() int64 { return stripe.Bytes(s.info.Size) }

func anonymous(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
}

// wholePages rounds up to pages of the operating system.
func wholePages(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) &^ (page - 1)
}

// Info implements [backend.Store].
func (s *Store) Info() backend.Info { return s.info }

// Allocated counts, in units of 4 KiB, what was written and not deallocated.
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

// Close unmaps the memory, which nobody may touch from then on.
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

// Mark implements [backend.Marked]: no two stores have the same content.
func (s *Store) Mark() []byte { return s.mark[:] }
