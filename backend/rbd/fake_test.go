package rbd

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A fakeImage replaces librbd: it keeps the bytes, and ends calls on its own threads.
type fakeImage struct {
	mu     sync.Mutex
	data   []byte
	unit   int64
	locked string // which other client has the lock

	features  uint64
	calls     chan func() // to the threads
	errno     atomic.Int32
	silent    atomic.Bool // it does not answer
	old       atomic.Bool // it compares and writes at most 512 bytes
	held      []func()    // answers that are held back
	kinds     []callKind
	ended     []*task // to be reused
	lockErr   error
	shutErr   error
	closed    bool
	closeHold chan struct{} // nil: close does not wait
}

func newFake(t *testing.T, size int) *fakeImage {
	i := &fakeImage{data: make([]byte, size), unit: 4 << 20, features: featureExclusiveLock | featureFastDiff, calls: make(chan func(), 2*maxDepth)}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for f := range i.calls {
				f()
			}
		})
	}
	t.Cleanup(func() {
		close(i.calls)
		wg.Wait()
	})
	return i
}

// one is what is written to an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// push is what the shim does at the end of a call.
func (r *ring) push(id uint32, result int32) {
	at := atomic.AddUint64(&r.tail, 1) - 1
	atomic.StoreUint64(&r.cells[at&r.mask], uint64(id+1)<<32|uint64(uint32(result)))
	if atomic.LoadUint32(&r.armed) != 0 && atomic.SwapUint32(&r.armed, 0) != 0 {
		_, _ = unix.Write(int(r.event), one)
	}
	atomic.AddInt64(&r.running, -1)
}

type task struct {
	i   *fakeImage
	r   *ring
	c   call
	run func()
}

// task returns an ended one, or a new one. It is called with the mutex held.
func (i *fakeImage) task() *task {
	if last := len(i.ended) - 1; last >= 0 {
		t := i.ended[last]
		i.ended = i.ended[:last]
		return t
	}
	t := &task{i: i}
	t.run = t.end
	return t
}

func (i *fakeImage) start(r *ring, calls []call) {
	for _, c := range calls {
		i.mu.Lock()
		t := i.task()
		t.r, t.c = r, c
		if silent := i.silent.Load(); silent {
			i.held = append(i.held, t.run)
			i.mu.Unlock()
			continue
		}
		i.mu.Unlock()
		i.calls <- t.run
	}
}

// answer makes it answer again.
func (i *fakeImage) answer() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.silent.Store(false)
	for _, f := range i.held {
		i.calls <- f
	}
	i.held = nil
}

func (t *task) end() {
	result := t.i.do(&t.c)
	r, id := t.r, t.c.id
	t.i.mu.Lock()
	t.i.ended = append(t.i.ended, t)
	t.i.mu.Unlock()
	r.push(id, result)
}

func memory(address, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), n)
}

func (i *fakeImage) do(c *call) int32 {
	if e := i.errno.Load(); e != 0 {
		return -e
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.kinds) < cap(i.kinds) {
		i.kinds = append(i.kinds, c.kind)
	}
	if c.kind == callFlush {
		return 0
	}
	if c.offset > uint64(len(i.data)) {
		return -int32(unix.EINVAL)
	}
	at := i.data[c.offset:min(c.offset+c.length, uint64(len(i.data)))]
	switch c.kind {
	case callRead:
		return int32(copy(memory(c.buffer, c.length), at))
	case callWrite:
		copy(at, memory(c.buffer, c.length))
	case callZero, callDiscard:
		clear(at)
	case callCompare:
		if i.old.Load() && c.offset%512+c.length > 512 {
			return -int32(unix.EINVAL)
		}
		if !bytes.Equal(at, memory(c.expected, c.length)) {
			return -int32(unix.EILSEQ)
		}
		copy(at, memory(c.buffer, c.length))
	}
	return 0
}

func (i *fakeImage) look() (geometry, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return geometry{int64(len(i.data)), i.unit, i.features}, i.shutErr
}

func (i *fakeImage) mark() ([]byte, error) { return []byte("cluster/1"), nil }

func (i *fakeImage) dataPool() (string, error) { return "rbd-data", nil }

func (i *fakeImage) resize(size int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.data = slices.Grow(i.data, max(0, int(size)-len(i.data)))[:size]
	return nil
}

// used counts the blocks that are not zero.
func (i *fakeImage) used(int64) (n int64, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for block := range slices.Chunk(i.data, 4096) {
		if bytes.Count(block, []byte{0}) < len(block) {
			n += 4096
		}
	}
	return n, nil
}

func (i *fakeImage) lock() error { return i.lockErr }
func (i *fakeImage) succeed(admits func(string) bool) error {
	if i.locked != "" && admits(i.locked) {
		i.locked, i.lockErr = "", nil
	}
	return nil
}

func (i *fakeImage) owner() (string, error) { return i.locked, nil }

func (i *fakeImage) close() error {
	if i.closeHold != nil {
		<-i.closeHold
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	return nil
}

// heap allocates memory on the Go heap, where the race detector sees atomic operations.
func heap(n int) ([]byte, func() error, error) {
	b := make([]byte, n)
	return b, func() error { return nil }, nil
}

// openFake opens a store on images that a function returns.
func openFake(name string, cfg Config, give func(cfg *Config) (image, error)) (*Store, error) {
	n, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(&n); err != nil {
		return nil, err
	}
	s := &Store{name: n, cfg: cfg, memory: heap, closeTime: 20 * time.Millisecond, lockTime: 20 * time.Millisecond}
	s.dial = func(_ Name, cfg *Config) (image, error) { return give(cfg) }
	return s, s.open()
}

// fakeStore returns a store on an image.
func fakeStore(t *testing.T, i *fakeImage, cfg Config) *Store {
	t.Helper()
	s, err := openFake("rbd/image", cfg, func(*Config) (image, error) { return i, nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do executes one request on a queue of its own.
func do(t *testing.T, s *Store, r backend.Request) error {
	t.Helper()
	q, err := s.NewQueue(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	return doOn(t, q, r)
}

func doOn(t *testing.T, q backend.Queue, r backend.Request) error {
	t.Helper()
	if q.Submit([]backend.Request{r}) != 1 {
		t.Fatal("the queue took nothing")
	}
	var got [1]backend.Result
	for end := time.Now().Add(10 * time.Second); q.Poll(got[:]) == 0; {
		if time.Now().After(end) {
			t.Fatal("no result")
		}
	}
	return got[0].Err
}
