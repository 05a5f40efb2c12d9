package disk

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
	"github.com/nvmeof-go/nvmeof/backend/internal/uring"
)

// Config is a descriptor and what its opener found out.
type Config struct {
	Options
	Name string       // in errors: the path
	FD   int          // a regular file or a block device; the disk's until Close
	Info backend.Info // Size may be any; it is rounded down to whole blocks

	Device      bool // FD is a block device: it may vanish, and takes BLKDISCARD
	Direct      bool // I/O bypasses the page cache; without it a durable write is a write and a sync
	PunchZeroes bool // OpWriteZeroes gives storage back, whatever the request says

	// Allocates says that a write may need storage that the file does not have yet. A
	// durable one is then a write and a sync, so that a write for which there is no space
	// is not taken for a sync that failed.
	Allocates bool

	// Measure is the size now, in bytes. It does not block. An error that wraps
	// ErrGone latches the disk.
	Measure func() (int64, error)
	// Release closes FD.
	Release func() error
}

// Disk implements [backend.Store] but for Allocated, and [backend.Latcher] and
// [backend.Resizer].
type Disk struct {
	cfg       Config
	info      atomic.Pointer[backend.Info] // replaced by Refresh
	block     int64                        // of info, which never changes
	notes     []string                     // under mu, once it is opened
	blocks    *stripe.Table
	sync      syncer
	zeroes    []byte // writeStep bytes
	newEngine func(d *Disk, calls int, notify func()) (engine, error)

	threadsNoted sync.Once

	// What the descriptor was found not to do.
	noPunch, noDiscard, noZeroRange, noDsync, noCopy atomic.Bool

	// Calls of byPunching and byZeroRange that have begun, and that have ended.
	freeing, freed atomic.Int64
	copied         atomic.Bool // there was a copy

	using sync.RWMutex // held by Stat, which may take as long as the file system does, and by Close

	mu     sync.Mutex // guards what follows, and is not held while something is asked
	queues int
	closed bool
}

// New makes a disk of an open descriptor. The caller keeps that if it fails.
func New(cfg Config) (*Disk, error) {
	opts, err := cfg.Options.Check()
	if err != nil {
		return nil, err
	}
	cfg.Options = opts
	d := &Disk{cfg: cfg, block: int64(cfg.Info.BlockSize)}
	d.noDiscard.Store(!cfg.Device)
	d.noDsync.Store(cfg.Allocates || !cfg.Direct)
	d.setSize(cfg.Info.Size)
	if err := d.setEngine(); err != nil {
		return nil, err
	}
	d.blocks = stripe.New(cfg.Info.Size)
	// Never touched, so all of it is the kernel's one page of zeroes.
	d.zeroes, err = unix.Mmap(-1, 0, writeStep, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map zeroes: %w", err)
	}
	return d, nil
}

// setEngine picks the engine by trying.
func (d *Disk) setEngine() error {
	d.newEngine = newThreads
	if d.cfg.Engine == EngineThreads {
		return nil
	}
	ring, err := uring.New(uring.Config{Entries: 1, File: d.cfg.FD})
	if err == nil {
		d.newEngine = newRingEngine
		return ring.Close()
	}
	if d.cfg.Engine == EngineURing {
		return err
	}
	d.noteThreads(err)
	return nil
}

// noteThreads notes why threads do what io_uring would do better.
func (d *Disk) noteThreads(err error) {
	d.threadsNoted.Do(func() { d.notes = append(d.notes, fmt.Sprintf("threads do its I/O: %v", err)) })
}

// openEngine opens an engine for one queue. Each ring takes descriptors and memory, which
// may be all in use although there was a ring before: then EngineAuto takes threads for
// the queue. Called with mu held.
func (d *Disk) openEngine(calls int, notify func()) (engine, error) {
	e, err := d.newEngine(d, calls, notify)
	if err == nil || d.cfg.Engine != EngineAuto {
		return e, err
	}
	d.noteThreads(err)
	return newThreads(d, calls, notify)
}

// Info implements [backend.Store].
func (d *Disk) Info() backend.Info { return *d.info.Load() }

// Notes are what an administrator should know of the engine: sentences without a
// capital and a full stop.
func (d *Disk) Notes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.notes)
}

// Stat calls f while the descriptor is sure to be open. If f hangs Close does too, and
// nothing else.
func (d *Disk) Stat(f func(fd int) error) error {
	if d.isClosed() { // while Close waits for another call using cannot be had
		return backend.ErrClosed
	}
	d.using.RLock()
	defer d.using.RUnlock()
	if d.isClosed() {
		return backend.ErrClosed
	}
	return f(d.cfg.FD)
}

func (d *Disk) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// NewQueue implements [backend.Store].
func (d *Disk) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("queue of %s: depth %d: must be 1 to %d", d.cfg.Name, depth, maxDepth)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, backend.ErrClosed
	}
	q, err := newQueue(d, depth, notify)
	if err != nil {
		return nil, fmt.Errorf("queue of %s: %w", d.cfg.Name, err)
	}
	d.queues++
	if e, ok := q.engine.(*ringEngine); ok {
		return &watchableQueue{queue: q, ring: e}, nil
	}
	return q, nil
}

func (d *Disk) queueClosed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues--
}

// Close gives the descriptor up. It does not flush.
func (d *Disk) Close() error {
	if first, err := d.retire(); !first {
		return err
	}
	d.using.Lock()
	defer d.using.Unlock()
	if err := unix.Munmap(d.zeroes); err != nil {
		return err
	}
	if err := d.cfg.Release(); err != nil {
		return fmt.Errorf("close %s: %w", d.cfg.Name, err)
	}
	return nil
}

// retire lets nobody use the disk any more, and reports whether it was not so before.
func (d *Disk) retire() (first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queues > 0 {
		return false, fmt.Errorf("close %s: %d queues are open: close them first", d.cfg.Name, d.queues)
	}
	first, d.closed = !d.closed, true
	return first, nil
}
