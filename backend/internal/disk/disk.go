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

// Config is a descriptor and what its opener knows about it.
type Config struct {
	Options
	Name string       // the path, for errors
	FD   int          // a regular file or a block device; the disk owns it until Close
	Info backend.Info // Size is rounded down to whole blocks

	Device      bool // FD is a block device: it may be removed, and supports BLKDISCARD
	Direct      bool // I/O bypasses the page cache; otherwise a durable write is a write and a sync
	PunchZeroes bool // OpWriteZeroes frees storage, whatever the request says

	// Allocates says that a write may need storage that the file does not have yet. A durable write is then a write and
	// a separate sync, so that running out of space is not taken for a failed sync.
	Allocates bool
	// Allocating, unless it is nil, reports whether that has become so. Refresh calls it.
	Allocating func(fd int) bool

	// Measure returns the present size in bytes. It does not block. An error that wraps ErrGone latches the disk.
	Measure func() (int64, error)
	// Release closes FD.
	Release func() error
}

// Disk implements [backend.Store] except for Allocated, and [backend.Latcher] and [backend.Resizer].
type Disk struct {
	cfg       Config
	info      atomic.Pointer[backend.Info] // replaced by Refresh
	block     int64                        // of info; never changes
	notes     []string                     // guarded by mu once the disk is open
	blocks    *stripe.Table
	sync      syncer
	share     share         // of the workers
	copying   chan struct{} // has room for as many copies as may be in the kernel
	zeroes    []byte        // writeStep bytes
	newEngine func(d *Disk, calls int, notify func()) (engine, error)

	threadsNoted sync.Once

	// Operations that turned out to be unsupported.
	noPunch, noDiscard, noZeroRange, noDsync, noCopy atomic.Bool

	// The numbers of calls of byPunching and byZeroRange that have begun and ended.
	freeing, freed atomic.Int64
	copied         atomic.Bool // there was a copy

	using sync.RWMutex // held by Stat, which may take as long as the file system does, and by Close

	mu     sync.Mutex // guards the fields below; not held during system calls on the file
	queues int
	closed bool
}

// New returns a disk for an open descriptor. If it fails, the caller still owns the descriptor.
func New(cfg Config) (*Disk, error) {
	opts, err := cfg.Options.Check()
	if err != nil {
		return nil, err
	}
	cfg.Options = opts
	d := &Disk{cfg: cfg, block: int64(cfg.Info.BlockSize), share: share{workers: cfg.Workers}, copying: make(chan struct{}, cfg.Threads)}
	d.noDiscard.Store(!cfg.Device)
	d.noDsync.Store(cfg.Allocates || !cfg.Direct)
	d.setSize(cfg.Info.Size)
	if err := d.setEngine(); err != nil {
		return nil, err
	}
	d.blocks = stripe.New(cfg.Info.Size)
	// Never written, so it consists of the kernel's single page of zeroes.
	d.zeroes, err = unix.Mmap(-1, 0, writeStep, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map zeroes: %w", err)
	}
	return d, nil
}

// setEngine selects the engine by trying.
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

// noteThreads notes why threads are used where io_uring would be better.
func (d *Disk) noteThreads(err error) {
	d.threadsNoted.Do(func() { d.notes = append(d.notes, fmt.Sprintf("threads do its I/O, which is slower: %v", err)) })
}

// openEngine opens an engine for one queue. A ring needs descriptors and memory, which may be exhausted even if an
// earlier ring could be opened. EngineAuto then uses threads for the queue. It is called with mu held.
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

// Notes returns what an administrator should know about the engine: sentences without an initial capital and a full
// stop.
func (d *Disk) Notes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.notes)
}

// Stat calls f while the descriptor cannot be closed. If f hangs, only Close hangs too.
func (d *Disk) Stat(f func(fd int) error) error {
	if d.isClosed() { // while Close waits for another call, using cannot be locked
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

// Close closes the descriptor. It does not flush.
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

// retire marks the disk as closed and reports whether it was open.
func (d *Disk) retire() (first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queues > 0 {
		return false, fmt.Errorf("close %s: %d queues are open: close them first", d.cfg.Name, d.queues)
	}
	first, d.closed = !d.closed, true
	return first, nil
}
