package backendtest

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

func testLeases(t *testing.T, s backend.Store, v backend.Leaser) {
	if n := int64(len(v.Memory())); n != s.Info().Size {
		t.Fatalf("Memory is %d bytes, the store %d", n, s.Info().Size)
	}
	block := int64(s.Info().BlockSize)
	far := int64(1 << 20)
	steps := []struct {
		what      string
		offset    int64
		length    int64
		exclusive bool
		want      bool
	}{
		{"shared", 0, 4 * block, false, true},
		{"shared over it", block, block, false, true},
		{"exclusive over shared", 3 * block, block, true, false},
		{"exclusive elsewhere", far, 4 * block, true, true},
		{"shared over exclusive", far + 3*block, block, false, false},
		{"exclusive over exclusive", far - block, 2 * block, true, false},
		{"shared over both", 0, far + block, false, false},
	}
	for _, l := range steps {
		if got := v.TryLease(l.offset, l.length, l.exclusive); got != l.want {
			t.Errorf("%s: TryLease = %v, want %v", l.what, got, l.want)
		}
	}
	for _, l := range steps {
		if l.want {
			v.Release(l.offset, l.length, l.exclusive)
		}
	}
	size := s.Info().Size
	if !v.TryLease(0, size, true) {
		t.Error("no exclusive lease of the whole store after all were released")
	}
	v.Release(0, size, true)
	// The queue reads what was written under a lease, and the reverse.
	c := newClient(t, s, 1)
	defer c.close()
	b := c.buffer(block)
	fill(b, 1)
	copy(v.Memory()[far:], b)
	if !bytes.Equal(c.readBack(far, block), b) {
		t.Error("queue does not read what was put into the memory")
	}
	fill(b, 2)
	c.ok(write(far, b))
	if !bytes.Equal(v.Memory()[far:far+block], b) {
		t.Error("memory does not show what the queue wrote")
	}
}

// While a block is sent from, writes to it wait, and so do operations that conflict with those writes, in order. Others
// do not wait.
func testLeaseHoldsWrites(t *testing.T, s backend.Store, v backend.Leaser) {
	c := newClient(t, s, 8)
	defer c.close()
	const size, tail = 64 << 10, 32 << 10 // leases may be coarser than blocks
	old, wide, narrow, after := c.buffer(size), c.buffer(size), c.buffer(tail), c.buffer(tail)
	fill(old, 1)
	fill(wide, 2)
	fill(narrow, 3)
	c.ok(write(0, old))
	if !v.TryLease(0, c.block(), false) {
		t.Fatal("no lease")
	}
	c.submit(write(0, wide))
	c.submit(write(tail, narrow)) // outside the lease, but behind the first write
	c.submit(read(tail, after))   // behind both
	c.wantNothing("conflicting requests under a shared lease")
	if !bytes.Equal(v.Memory()[:c.block()], old[:c.block()]) {
		t.Fatal("leased memory changed")
	}
	elsewhere := c.submit(write(1<<20, wide))
	if got := c.results(); len(got) != 1 || got[0].Tag != elsewhere {
		t.Fatalf("a write elsewhere waits too: %v", got)
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		v.Release(0, c.block(), false)
	}()
	c.drain(3)
	<-released
	if !bytes.Equal(after, narrow) || !bytes.Equal(v.Memory()[:tail], wide[:tail]) {
		t.Error("conflicting requests did not take effect in order")
	}
}

func testLeaseHoldsReads(t *testing.T, s backend.Store, v backend.Leaser) {
	c := newClient(t, s, 8)
	defer c.close()
	block := c.block()
	if !v.TryLease(block, 2*block, true) {
		t.Fatal("no lease")
	}
	b := c.buffer(4 * block)
	c.submit(read(0, b))
	c.submit(backend.Request{Op: backend.OpWriteZeroes, Length: block * 4, Offset: 1 << 20})
	c.drain(1) // the write of zeroes
	c.wantNothing("read under an exclusive lease")
	stamp(v.Memory()[block:3*block], 42)
	go v.Release(block, 2*block, true)
	c.drain(1)
	if b[block] != 42 || b[3*block-8] != 42 {
		t.Error("read does not show what was written under the lease")
	}
}

// Overlapping shared leases without a gap do not starve writers, neither those with leases nor those with queues.
func testLeaseStarvation(t *testing.T, s backend.Store, v backend.Leaser) {
	block := int64(s.Info().BlockSize)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for held := false; ; {
				// The next lease is taken before the last one is released.
				next := v.TryLease(0, 4*block, false)
				if held {
					v.Release(0, 4*block, false)
				}
				held = next
				runtime.Gosched()
				select {
				case <-stop:
					if held {
						v.Release(0, 4*block, false)
					}
					return
				default:
				}
			}
		})
	}
	c := newClient(t, s, 1)
	defer c.close()
	b := c.buffer(4 * block)
	for range 20 {
		c.ok(write(0, b))
		for tries := 0; !v.TryLease(block, block, true); tries++ {
			if tries == 1e8 {
				t.Fatal("no exclusive lease among shared ones")
			}
			runtime.Gosched()
		}
		v.Release(block, block, true)
	}
	close(stop)
	readers.Wait()
}

// A writer that waited and was cancelled does not exclude readers.
func testLeaseGivenUp(t *testing.T, s backend.Store, v backend.Leaser) {
	c := newClient(t, s, 1)
	defer c.close()
	block := c.block()
	if !v.TryLease(0, block, false) || v.TryLease(0, block, true) {
		t.Fatal("leases are wrong")
	}
	v.Release(0, block, false)
	c.readBack(0, block)
	for tries := 0; !v.TryLease(0, block, false); tries++ {
		if tries == 1e7 {
			t.Fatal("a writer that gave up keeps shared leases out")
		}
	}
	v.Release(0, block, false)
}

// A queue closes although one of its requests waits for a lease, and the request is dropped.
func testLeaseClose(t *testing.T, s backend.Store, v backend.Leaser) {
	c := newClient(t, s, 2)
	b := c.buffer(c.block())
	stamp(b, 1)
	c.ok(write(0, b))
	if !v.TryLease(0, c.block(), false) {
		t.Fatal("no lease")
	}
	stamp(b, 2)
	c.submit(write(0, b))
	c.wantNothing("write under a lease")
	c.close()
	v.Release(0, c.block(), false)
	again := newClient(t, s, 1)
	defer again.close()
	if got := again.readBack(0, c.block()); got[0] != 1 {
		t.Error("a request of a closed queue took effect")
	}
}

// Leases and queues together: data seen under a lease is whole and does not change.
func testLeaseAtomicBlocks(t *testing.T, s backend.Store, v backend.Leaser) {
	const span, rounds = 4, 300
	prepareBlocks(t, s, span)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			c := newClient(t, s, 1)
			defer c.close()
			b := c.buffer(span * c.block())
			for i := range uint64(rounds) {
				if n == 0 {
					stamp(b, i)
					c.ok(write(0, b))
				} else if c.ok(read(0, b)); torn(b, c.block()) {
					t.Error("queue read a block that is a mix")
					return
				}
			}
		})
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 9))
			block := int64(s.Info().BlockSize)
			for range rounds {
				offset := rnd.Int64N(span) * block
				m := v.Memory()[offset : offset+block]
				for !v.TryLease(offset, block, n == 0) {
					runtime.Gosched()
				}
				if n == 0 {
					stamp(m, rnd.Uint64())
				}
				before := m[0]
				runtime.Gosched()
				if torn(m, block) || m[0] != before {
					t.Error("leased block is a mix or changed")
				}
				v.Release(offset, block, n == 0)
			}
		})
	}
	wg.Wait()
}
