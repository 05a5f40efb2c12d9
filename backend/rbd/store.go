package rbd

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

// Store implements [backend.Store], [backend.Resizer], [backend.Latcher] and
// [backend.Marked] on an image.
type Store struct {
	name   Name
	cfg    Config
	dial   dialer
	memory source // of rings
	mark   []byte
	data   string // the pool with the data

	info   atomic.Pointer[backend.Info] // replaced by Refresh
	unit   int64                        // bytes that are stored in one object
	blocks *stripe.Table

	sectors atomic.Bool // the library compares and writes at most one sector in one step

	image   atomic.Pointer[image] // replaced by Clear
	epoch   atomic.Uint64         // incremented when the client has lost its right to the image
	failure atomic.Pointer[failure]

	closeTime, lockTime time.Duration

	change  sync.Mutex // held by Clear, Refresh and Extend, each of which waits for the cluster
	mu      sync.Mutex // guards the fields below; not held during calls to the cluster
	queues  int
	closed  bool
	retired []image // images from before Clear; they may have outstanding calls
}

// errFenced is the error of requests once the client has lost its right to the image.
var errFenced = fmt.Errorf("%w: %w", backend.ErrFailed, backend.ErrFenced)

// A failure says why the store takes no more requests.
type failure struct{ err error }

// Open opens or creates the named image: see [ParseName].
func Open(name string, cfg Config) (*Store, error) {
	s, err := newStore(name, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open image %s: %w", s.name, err)
	}
	return s, nil
}

func (s *Store) open() error {
	return s.anew(func() error {
		i, err := s.dialImage(&s.cfg)
		if err != nil {
			return err
		}
		return s.take(i)
	})
}

// An imageOf is an image of a Client. The Client cannot end before the image is closed: calls that hang would otherwise
// use a connection that no longer exists.
type imageOf struct {
	image
	client *Client
}

func (i imageOf) close() error {
	defer i.client.calls.Done()
	return i.image.close()
}

// dialImage opens an image.
func (s *Store) dialImage(cfg *Config) (image, error) {
	c := cfg.Client
	switch {
	case c == nil && cfg.Clients != nil:
		return s.dialCommon(*cfg)
	case c == nil:
		return s.dial(s.name, cfg)
	}
	if !c.enter() {
		return nil, backend.ErrClosed
	}
	i, err := s.dial(s.name, cfg)
	if err != nil {
		c.calls.Done()
		return nil, err
	}
	return imageOf{i, c}, nil
}

// newStore returns a store without an image.
func newStore(name string, cfg Config) (*Store, error) {
	n, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(&n); err != nil {
		return nil, fmt.Errorf("open image %s: %w", n, err)
	}
	return &Store{name: n, cfg: cfg, dial: dial, memory: mapped, closeTime: CloseTime, lockTime: lockTime}, nil
}

// take makes an open image the store's. If that fails it closes the image.
func (s *Store) take(i image) error {
	err := s.acquire(i)
	if err == nil {
		err = s.prepare(i)
	}
	if err != nil {
		if errors.Is(err, blocklisted) {
			refuse(i)
		}
		return errors.Join(err, i.close())
	}
	s.image.Store(&i)
	return nil
}

func (s *Store) prepare(i image) error {
	g, err := i.look()
	if err != nil {
		return err
	}
	if g.size < s.cfg.Size {
		if err := i.resize(s.cfg.Size); err != nil {
			return err
		}
		g.size = s.cfg.Size
	}
	info, err := s.describe(g)
	if err != nil {
		return err
	}
	if s.mark, err = i.mark(); err != nil {
		return err
	}
	if s.data, err = i.dataPool(); err != nil {
		return err
	}
	s.info.Store(&info)
	s.unit, s.blocks = g.unit, stripe.New(info.Size)
	return nil
}

// describe chooses the block size.
func (s *Store) describe(g geometry) (backend.Info, error) {
	block := s.cfg.BlockSize
	if block == 0 {
		if block = 512; g.size%4096 == 0 && g.unit%4096 == 0 {
			block = 4096
		}
	}
	switch {
	case g.size < int64(block):
		return backend.Info{}, fmt.Errorf("it has %d bytes, less than one block of %d", g.size, block)
	case g.unit%int64(block) != 0:
		return backend.Info{}, fmt.Errorf("its stripe unit is %d bytes: a block of %d would not be written atomically; use another block size", g.unit, block)
	}
	writable := !s.cfg.readOnly(&s.name)
	return backend.Info{
		Size: g.size &^ (int64(block) - 1), BlockSize: block, Alignment: 1,
		Optimal:  int(min(g.unit, 64<<10)), // what the cluster usually allocates
		Volatile: writable, Remote: true, ReadOnly: !writable, Deallocate: writable, Compare: writable,
	}, nil
}

// current returns the image that is used for calls.
func (s *Store) current() image { return *s.image.Load() }

// inSteps reports whether the cluster cannot compare and write a range in one step.
func (s *Store) inSteps(offset, length int64) bool {
	unit := s.unit
	if s.sectors.Load() {
		unit = sector
	}
	return offset/unit != (offset+length-1)/unit
}

// sector is how many bytes librbd before version 17 compares and writes in one step at most.
const sector = 512

// onlySectors notes that the library refused a compare and write that was too long for it. It reports whether there is
// another way.
func (s *Store) onlySectors(r *slot) bool {
	if r.req.Op != backend.OpCompareAndWrite || r.alone {
		return false
	}
	s.sectors.Store(true)
	return s.inSteps(r.req.Offset, r.req.Length)
}

// admit returns the error of a request that cannot be executed.
func (s *Store) admit(r *backend.Request, info *backend.Info) error {
	if err := info.Check(r); err != nil {
		return err
	}
	if s.failure.Load() != nil {
		return errFenced
	}
	return nil
}

// failed returns the error of a request, taken in that epoch, whose call failed. It latches the store if the client has
// lost its right to the image.
func (s *Store) failed(op backend.Op, errno unix.Errno, epoch uint64) error {
	if !lost(errno) {
		return resultOf(s.name.String(), op, errno)
	}
	why := "another client has taken its exclusive lock"
	if errno == blocklisted {
		why = "the cluster has blocklisted this client"
	}
	f := &failure{fmt.Errorf("image %s: %s (%w): see who uses it (rbd status), then clear the failure (nvmeof namespace clear-fault), which opens it again", s.name, why, errno)}
	if s.latch(f, epoch) && errno == blocklisted && s.cfg.Lost != nil {
		s.cfg.Lost()
	}
	return fmt.Errorf("%w: %w", errFenced, f.err)
}

// latch sets the failure, unless there is one already or the call was made to an earlier image than the current one.
func (s *Store) latch(f *failure, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch.Load() != epoch || !s.failure.CompareAndSwap(nil, f) {
		return false
	}
	s.epoch.Add(1)
	refuse(s.current())
	return true
}

// Info implements [backend.Store].
func (s *Store) Info() backend.Info { return *s.info.Load() }

// Mark implements [backend.Marked]. It is made of the cluster and the image's identifier, which no other image of the
// same name has.
func (s *Store) Mark() []byte { return s.mark }

// Pools returns the pools that contain the image, for [Client.AwaitFence]. The first one has its header; most images
// have only that one.
func (s *Store) Pools() []string {
	all := []string{s.name.In()}
	if s.data != s.name.Pool {
		all = append(all, s.data)
	}
	return all
}

// NewQueue implements [backend.Store].
func (s *Store) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("queue of %s: depth %d: must be 1 to %d", s.name, depth, maxDepth)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, backend.ErrClosed
	}
	q, err := newQueue(s, depth, notify)
	if err != nil {
		return nil, fmt.Errorf("queue of %s: %w", s.name, err)
	}
	s.queues++
	return q, nil
}

func (s *Store) queueClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues--
}

// Close releases the image and its lock. If the cluster does not answer, it fails with a [HungError].
func (s *Store) Close() error {
	all, err := s.retire()
	if err != nil || all == nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { // ends when the cluster answers
		var errs []error
		for _, i := range all {
			errs = append(errs, i.close())
		}
		ended <- errors.Join(errs...)
	}()
	timer := time.NewTimer(s.closeTime)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err != nil && s.failure.Load() == nil { // a client that lost its right cannot report that to the cluster
			return fmt.Errorf("close %s: %w", s.name, err)
		}
		return nil
	case <-timer.C:
		return &HungError{s.name.String(), s.closeTime}
	}
}

// retire prevents further use of the store and returns the images to be closed, or nil if it was called before.
func (s *Store) retire() ([]image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues > 0 {
		return nil, fmt.Errorf("close %s: %d queues are open: close them first", s.name, s.queues)
	}
	if s.closed {
		return nil, nil
	}
	s.closed = true
	return append(s.retired, s.current()), nil
}
