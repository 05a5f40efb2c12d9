package backendtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/backend"
)

// timeLimit is how long a result may take before a test fails.
const timeLimit = 5 * time.Second

// Buffer returns n bytes at an address that is a multiple of align.
func Buffer(n, align int) []byte {
	b := make([]byte, n+align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	return b[skip : skip+n : skip+n]
}

// A client drives one queue and sleeps whenever Poll finds nothing, so that a missing notification is detected.
type client struct {
	t     testing.TB
	info  backend.Info
	q     backend.Queue
	depth int
	wake  chan struct{}
	timer *time.Timer
	got   []backend.Result
	tag   uint64
}

// newClient locks the calling goroutine to its thread permanently.
func newClient(t testing.TB, s backend.Store, depth int) *client {
	t.Helper()
	runtime.LockOSThread()
	c := &client{
		t:     t,
		info:  s.Info(),
		depth: depth,
		wake:  make(chan struct{}, 1),
		timer: time.NewTimer(timeLimit),
		got:   make([]backend.Result, depth),
	}
	q, err := s.NewQueue(depth, func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatalf("NewQueue: %v", err)
	}
	c.q = q
	return c
}

func (c *client) close() {
	c.t.Helper()
	if err := c.q.Close(); err != nil {
		c.t.Errorf("Close of queue: %v", err)
	}
}

func (c *client) block() int64 { return int64(c.info.BlockSize) }

func (c *client) buffer(n int64) []byte { return Buffer(int(n), max(c.info.Alignment, 4096)) }

// submit submits one request with a tag of its own.
func (c *client) submit(r backend.Request) uint64 {
	c.t.Helper()
	c.tag++
	r.Tag = c.tag
	if n := c.q.Submit([]backend.Request{r}); n != 1 {
		c.t.Fatalf("Submit took %d requests, want 1", n)
	}
	return c.tag
}

// results waits until there are results.
func (c *client) results() []backend.Result {
	c.t.Helper()
	for {
		if n := c.q.Poll(c.got); n > 0 {
			return c.got[:n]
		}
		c.timer.Reset(timeLimit)
		select {
		case <-c.wake:
		case <-c.timer.C:
			c.t.Fatalf("no result, or no notification of it, within %v", timeLimit)
		}
	}
}

// wantNothing polls for a while and fails if a result arrives.
func (c *client) wantNothing(what string) {
	c.t.Helper()
	for range 200 {
		if n := c.q.Poll(c.got); n > 0 {
			c.t.Fatalf("%s: got a result: %v", what, c.got[0].Err)
		}
		runtime.Gosched()
	}
}

// do executes one request on an idle queue.
func (c *client) do(r backend.Request) error {
	c.t.Helper()
	tag := c.submit(r)
	got := c.results()
	if len(got) != 1 || got[0].Tag != tag {
		c.t.Fatalf("got %d results, the first with tag %d: want one with tag %d", len(got), got[0].Tag, tag)
	}
	if !c.q.Idle() {
		c.t.Fatal("queue is not idle after its only result")
	}
	return got[0].Err
}

// ok fails unless the request succeeds.
func (c *client) ok(r backend.Request) {
	c.t.Helper()
	if err := c.do(r); err != nil {
		c.t.Fatalf("operation %d of %d bytes at %d: %v", r.Op, r.Length, r.Offset, err)
	}
}

// wantErr fails unless the request fails with that error.
func (c *client) wantErr(r backend.Request, want error) {
	c.t.Helper()
	if err := c.do(r); !errors.Is(err, want) {
		c.t.Errorf("operation %d of %d bytes at %d: error %v, want %v", r.Op, r.Length, r.Offset, err, want)
	}
}

// drain waits for n results, all of which must be successes.
func (c *client) drain(n int) {
	c.t.Helper()
	for n > 0 {
		got := c.results()
		for _, r := range got {
			if r.Err != nil {
				c.t.Fatalf("request %d: %v", r.Tag, r.Err)
			}
		}
		n -= len(got)
	}
}

func read(offset int64, b []byte) backend.Request {
	return backend.Request{Op: backend.OpRead, Offset: offset, Length: int64(len(b)), Buf: b}
}

func write(offset int64, b []byte) backend.Request {
	return backend.Request{Op: backend.OpWrite, Offset: offset, Length: int64(len(b)), Buf: b}
}

// readBack returns the content of the store.
func (c *client) readBack(offset, n int64) []byte {
	c.t.Helper()
	b := c.buffer(n)
	c.ok(read(offset, b))
	return b
}

// fill makes the 512 bytes of every sector different from those of all others and dependent on the seed.
func fill(b []byte, seed uint64) {
	for i := 0; i < len(b); i += 512 {
		seed = seed*6364136223846793005 + 1442695040888963407
		stamp(b[i:min(i+512, len(b))], seed)
	}
}

// stamp fills a buffer with one value of 8 bytes; torn finds a block with two different values.
func stamp(b []byte, value uint64) {
	if len(b) == 0 {
		return
	}
	binary.LittleEndian.PutUint64(b, value)
	for n := 8; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func torn(b []byte, block int64) bool {
	for ; len(b) > 0; b = b[block:] {
		if !bytes.Equal(b[8:block], b[:block-8]) {
			return true
		}
	}
	return false
}

func isZero(b []byte) bool { return bytes.Count(b, []byte{0}) == len(b) }
