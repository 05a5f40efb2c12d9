// Package memory is a store in RAM: one anonymous mapping outside the Go heap,
// whose pages are populated when first written and given back when deallocated.
// Nothing survives the process; Flush and force unit access have nothing to do.
//
// Operations are carried out inside Submit, except where another queue or a
// lease holds their blocks, and except for the later parts of long
// OpWriteZeroes and OpDeallocate requests: these advance with each Poll, so that
// no call takes longer than a few tens of microseconds for them.
package memory

import (
	"crypto/rand"
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
}

// Store implements [backend.Store], [backend.Leaser] and [backend.Marked].
type Store struct {
	info   backend.Info
	pinned bool
	mapped []byte // all of the mapping: the memory, and the words of blocks
	memory []byte // whole pages
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
	if cfg.BlockSize == 0 {
		cfg.BlockSize = 4096
	}
	if cfg.BlockSize != 512 && cfg.BlockSize != 4096 {
		return nil, fmt.Errorf("memory store: block size %d: must be 512 or 4096", cfg.BlockSize)
	}
	size := cfg.Size &^ int64(cfg.BlockSize-1)
	page := int64(os.Getpagesize())
	if size <= 0 || size > math.MaxInt-2*page-stripe.Bytes(size) {
		return nil, fmt.Errorf("memory store: size %d: must be at least one block of %d bytes and fit the address space",
			cfg.Size, cfg.BlockSize)
	}
	// The words that guard the blocks lie behind those: of an idle store neither is there.
	whole := (size + page - 1) &^ (page - 1)
	mapped, err := unix.Mmap(-1, 0, int(whole+stripe.Bytes(size)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory store: map %d bytes: %w", size, err)
	}
	memory := mapped[:whole:whole]
	// Both are advice: without them the store is slower, its core dumps larger.
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(memory, unix.MADV_DONTDUMP)
	s := &Store{
		info: backend.Info{
			Size:       size,
			BlockSize:  cfg.BlockSize,
			Alignment:  1,
			Optimal:    4096,
			Deallocate: !cfg.Pinned,
			Compare:    true,
		},
		pinned: cfg.Pinned,
		mapped: mapped,
		memory: memory,
		blocks: stripe.NewIn(size, mapped[whole:]),
		used:   newPages(size),
		opened: time.Now(),

		regions: make([]returned, (size+region-1)/region),
	}
	_, _ = rand.Read(s.mark[:]) // it never fails
	return s, nil
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
	return unix.Munmap(s.mapped)
}

// Mark implements [backend.Marked]: no two stores have the same content.
func (s *Store) Mark() []byte { return s.mark[:] }
