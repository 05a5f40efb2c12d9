package backendtest

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

func testDepth(t *testing.T, s backend.Store) {
	const depth = 8
	c := newClient(t, s, depth)
	defer c.close()
	if !c.q.Idle() {
		t.Error("new queue is not idle")
	}
	var rs []backend.Request
	for i := range int64(depth + 4) {
		rs = append(rs, write(i*c.block(), c.buffer(c.block())))
		rs[i].Tag = uint64(i)
	}
	if n := c.q.Submit(rs); n != depth {
		t.Fatalf("Submit took %d requests into a queue of %d", n, depth)
	}
	if n := c.q.Submit(rs); n != 0 {
		t.Fatalf("Submit took %d more into a full queue", n)
	}
	if c.q.Idle() {
		t.Error("full queue is idle")
	}
	c.got = c.got[:1]
	c.results() // one is polled, so there is room for one, finished or not
	if n := c.q.Submit(rs[depth:]); n != 1 {
		t.Errorf("Submit took %d requests where one fits", n)
	}
	c.drain(depth)
	if !c.q.Idle() {
		t.Error("queue is not idle after its last result")
	}
	if n := c.q.Poll(c.got); n != 0 {
		t.Errorf("Poll of an idle queue returned %d results", n)
	}
	if n := c.q.Submit(nil); n != 0 {
		t.Errorf("Submit of nothing took %d", n)
	}
}

func testFlush(t *testing.T, s backend.Store) {
	const depth = 8
	c := newClient(t, s, depth)
	defer c.close()
	b := c.buffer(c.block())
	fill(b, 1)
	c.ok(write(0, b))
	c.ok(backend.Request{Op: backend.OpFlush})
	// Offset and length do not matter, and flushes may overlap.
	for i := range depth {
		c.submit(backend.Request{Op: backend.OpFlush, Offset: -1, Length: int64(i)})
	}
	c.drain(depth)
	if !bytes.Equal(c.readBack(0, c.block()), b) {
		t.Error("flush changed the data")
	}
}

// Flushes of several queues complete although each of them needs its own sync.
func testFlushOnManyQueues(t *testing.T, s backend.Store) {
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			c := newClient(t, s, 4)
			defer c.close()
			b := c.buffer(c.block())
			for i := range 10 {
				fill(b, uint64(i))
				c.ok(write(int64(n)*c.block(), b))
				c.submit(backend.Request{Op: backend.OpFlush})
				c.submit(backend.Request{Op: backend.OpFlush})
				c.drain(2)
			}
		})
	}
	wg.Wait()
}

// Several queues write and read the same blocks; no block is ever a mix.
func testAtomicBlocks(t *testing.T, s backend.Store) {
	const queues, span = 4, 32
	prepareBlocks(t, s, span)
	end := time.Now().Add(25 * time.Millisecond)
	if isLong() {
		end = end.Add(75 * time.Millisecond)
	}
	var wg sync.WaitGroup
	for n := range queues {
		wg.Go(func() {
			c := newClient(t, s, 4)
			defer c.close()
			rnd := rand.New(rand.NewPCG(uint64(n), 0))
			for i := 0; i < 5 || time.Now().Before(end); i++ {
				if !mixBlocks(c, rnd, n%2 == 0, span) {
					t.Errorf("round %d: read a block that is a mix of two writes", i)
					return
				}
			}
		})
	}
	wg.Wait()
}

// isLong reports whether long tests run in full. They do not if the test program has a flag -long that is not set.
func isLong() bool {
	f := flag.Lookup("long")
	return f == nil || f.Value.String() == "true"
}

// mixBlocks fills the queue with writes or reads of random blocks, and reports whether all blocks read were whole.
func mixBlocks(c *client, rnd *rand.Rand, writes bool, span int64) bool {
	rs := make([]backend.Request, c.depth)
	for i := range rs {
		first := rnd.Int64N(span)
		b := c.buffer((1 + rnd.Int64N(span-first)) * c.block())
		rs[i] = read(first*c.block(), b)
		if writes {
			stamp(b, rnd.Uint64())
			rs[i] = write(first*c.block(), b)
		}
	}
	if got := c.q.Submit(rs); got != c.depth {
		c.t.Errorf("Submit took %d of %d", got, c.depth)
		return true
	}
	c.drain(c.depth)
	for i := range rs {
		if !writes && torn(rs[i].Buf, c.block()) {
			return false
		}
	}
	return true
}

func prepareBlocks(t *testing.T, s backend.Store, n int64) {
	c := newClient(t, s, 1)
	defer c.close()
	c.ok(write(0, c.buffer(n*c.block())))
}

// Conflicting requests in flight on one queue all complete, and no block is a mix afterwards.
func testOwnConflicts(t *testing.T, s backend.Store) {
	const depth, span = 16, 8
	prepareBlocks(t, s, span)
	c := newClient(t, s, depth)
	defer c.close()
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 10 {
		for range depth {
			first := rnd.Int64N(span)
			b := c.buffer((1 + rnd.Int64N(span-first)) * c.block())
			stamp(b, rnd.Uint64())
			switch offset := first * c.block(); rnd.IntN(3) {
			case 0:
				c.submit(read(offset, b))
			case 1:
				c.submit(write(offset, b))
			case 2:
				c.submit(backend.Request{Op: backend.OpWriteZeroes, Offset: offset, Length: int64(len(b))})
			}
		}
		c.drain(depth)
		if torn(c.readBack(0, span*c.block()), c.block()) {
			t.Fatal("a block is a mix of two writes")
		}
	}
}

// An owner that sleeps on the queue's descriptor misses no result.
func testDescriptor(t *testing.T, s backend.Store) {
	const depth = 4
	c := newClient(t, s, depth)
	defer c.close()
	w, ok := c.q.(backend.Watchable)
	if !ok {
		return // the queue is not watchable
	}
	fds := []unix.PollFd{{Fd: int32(w.Descriptor()), Events: unix.POLLIN}}
	b := c.buffer(c.block())
	for i := range 50 {
		r := write(int64(i)*c.block(), b)
		r.FUA = i%4 == 0
		c.submit(r)
		c.submit(write(0, b)) // conflicts with itself
		c.submit(backend.Request{Op: backend.OpFlush})
		c.submit(backend.Request{Op: backend.OpWriteZeroes, Offset: 1 << 20, Length: 1 << 20})
		for left := depth; left > 0; {
			n := c.q.Poll(c.got)
			for _, r := range c.got[:n] {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			if left -= n; n > 0 || !w.Arm() {
				continue
			}
			if n, err := unix.Poll(fds, int(timeLimit.Milliseconds())); n == 0 && err == nil {
				t.Fatalf("descriptor not readable within %v", timeLimit)
			}
		}
	}
	w.Arm()
	c.submit(write(0, b))
	for limit := time.Now().Add(timeLimit); c.q.Poll(c.got) == 0; {
		if time.Now().After(limit) {
			t.Fatalf("no result within %v", timeLimit)
		}
	}
	// The kernel checks whether the event is enabled after it has stored the result.
	for limit := time.Now().Add(timeLimit); ; time.Sleep(time.Millisecond) {
		if n, _ := unix.Poll(fds, 0); n == 0 {
			return
		}
		w.Arm()
		if time.Now().After(limit) {
			break
		}
	}
	t.Error("armed with nothing in flight, the descriptor reports a request that was polled for: its owner would never sleep again")
}

// A queue closed with requests in flight no longer touches their buffers and leaves every block whole.
func testCloseInFlight(t *testing.T, s backend.Store) {
	const depth = 16
	prepareBlocks(t, s, depth)
	for range 5 {
		c := newClient(t, s, depth)
		var bufs [][]byte
		for i := range int64(depth - 2) {
			b := c.buffer(c.block())
			stamp(b, uint64(i)+1)
			bufs = append(bufs, b)
			c.submit(write(i/2*c.block(), b))
		}
		c.submit(backend.Request{Op: backend.OpFlush})
		c.submit(backend.Request{Op: backend.OpDeallocate, Offset: depth * c.block(), Length: 1 << 20})
		c.close()
		for _, b := range bufs {
			fill(b, 99) // would tear a block if a write still ran
		}
		c.close() // a second call does nothing
		check := newClient(t, s, 1)
		if torn(check.readBack(0, depth*c.block()), c.block()) {
			t.Fatal("a block is a mix after its queue was closed")
		}
		check.close()
	}
}

func testCloseStore(t *testing.T, s backend.Store) {
	c := newClient(t, s, 1)
	if err := s.Close(); err == nil {
		t.Error("the store closed while a queue was open")
	}
	c.ok(backend.Request{Op: backend.OpFlush})
	c.close()
	if n := c.q.Submit([]backend.Request{{Op: backend.OpFlush}}); n != 0 {
		t.Error("a closed queue took a request")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := s.NewQueue(1, nil); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("NewQueue of a closed store: %v, want %v", err, backend.ErrClosed)
	}
}

func testNoAllocations(t *testing.T, s backend.Store) {
	const depth = 8
	c := newClient(t, s, depth)
	defer c.close()
	block := c.block()
	var rs []backend.Request
	for i := range int64(depth - 3) {
		r := write(i*block, c.buffer(block))
		if i%2 == 1 {
			r.Op = backend.OpRead
		}
		r.FUA = i == 2
		rs = append(rs, r)
	}
	rs = append(rs, write(0, c.buffer(block)), // conflicts with the first
		backend.Request{Op: backend.OpFlush},
		backend.Request{Op: backend.OpWriteZeroes, Offset: 1 << 20, Length: block, Deallocate: true})
	cycle := func() {
		if n := c.q.Submit(rs); n != depth {
			t.Fatalf("Submit took %d of %d", n, depth)
		}
		for !c.q.Idle() {
			for _, r := range c.got[:c.q.Poll(c.got)] {
				if r.Err != nil {
					t.Fatalf("request %d: %v", r.Tag, r.Err)
				}
			}
			runtime.Gosched()
		}
	}
	cycle()
	// The count is that of the whole process, so other tests may add to it occasionally.
	least := math.Inf(1)
	for range 3 {
		least = min(least, testing.AllocsPerRun(20, cycle))
	}
	if least > 0 {
		t.Errorf("%v allocations for %d requests", least, depth)
	}
}
