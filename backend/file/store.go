package file

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/stripe"
)

// Store implements [backend.Store] on a regular file.
type Store struct {
	path      string
	cfg       Config
	fd        int
	direct    bool
	info      backend.Info
	notes     []string
	blocks    *stripe.Table
	sync      syncer
	zeroes    []byte // writeStep bytes
	newEngine func(s *Store, calls int, notify func()) (engine, error)

	// What the file system was found not to do.
	noPunch, noZeroRange, noDsync atomic.Bool

	mu     sync.Mutex // opening and closing
	queues int
	closed bool
}

// Info implements [backend.Store].
func (s *Store) Info() backend.Info { return s.info }

// Notes tells an administrator what is not as configured, and why: sentences
// without a capital and a full stop.
func (s *Store) Notes() []string { return slices.Clone(s.notes) }

// Direct reports whether I/O bypasses the page cache.
func (s *Store) Direct() bool { return s.direct }

// Allocated is the file's share of the file system.
func (s *Store) Allocated() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, backend.ErrClosed
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", s.path, err)
	}
	return st.Blocks * 512, nil
}

// NewQueue implements [backend.Store].
func (s *Store) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("queue of %s: depth %d: must be 1 to %d", s.path, depth, maxDepth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, backend.ErrClosed
	}
	q, err := newQueue(s, depth, notify)
	if err != nil {
		return nil, fmt.Errorf("queue of %s: %w", s.path, err)
	}
	s.queues++
	if e, ok := q.engine.(*ringEngine); ok {
		return &watchableQueue{queue: q, ring: e}, nil
	}
	return q, nil
}

func (s *Store) queueClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues--
}

// Close gives the file up to the next opener. It does not flush.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.queues > 0 {
		return fmt.Errorf("close %s: %d queues are open: close them first", s.path, s.queues)
	}
	s.closed = true
	if err := unix.Munmap(s.zeroes); err != nil {
		return err
	}
	if err := unlockAndClose(s.fd); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}
