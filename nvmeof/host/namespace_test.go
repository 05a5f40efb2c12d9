package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// inBubble runs a test with fake time.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestReadWrite(t *testing.T) {
	for _, block := range []int{512, 4096} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("block %d, shared keys %v", block, shared), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					store := newStore(t, 16<<20, block)
					r := newRig(t, rigConfig{stores: []backend.Store{store}, budget: 100_000})
					o := r.options()
					o.SharedKeys = shared
					c := r.connect(o)
					n := r.namespace(c)
					if n.Size() != 16<<20 || n.BlockSize() != block {
						t.Fatalf("namespace of %d bytes in blocks of %d", n.Size(), n.BlockSize())
					}
					buffers, err := c.NewBuffers(4 << 20)
					if err != nil {
						t.Fatal(err)
					}
					plain := make([]byte, 4<<20)
					for _, memory := range [][]byte{plain, buffers.Bytes()} {
						for i, size := range []int{block, 2 * block, 64 << 10, 1<<20 + block, 3 << 20} {
							at := int64(block * (i + 3))
							pattern(memory[:size], i)
							want := bytes.Clone(memory[:size])
							if got, err := n.WriteAt(memory[:size], at); got != size || err != nil {
								t.Fatalf("WriteAt of %d: %d, %v", size, got, err)
							}
							clear(memory)
							if got, err := n.ReadAt(memory[:size], at); got != size || err != nil {
								t.Fatalf("ReadAt of %d: %d, %v", size, got, err)
							}
							if !bytes.Equal(memory[:size], want) {
								t.Fatalf("%d bytes at %d differ", size, at)
							}
						}
					}
					if err := n.Flush(); err != nil {
						t.Errorf("Flush: %v", err)
					}
				})
			})
		}
	}
}

// TestReaderAt tests the contract of io.ReaderAt, and the properties of a block device.
func TestReaderAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const size = 4 << 20
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, size, 4096)}})
		n := r.namespace(r.connect(r.options()))
		all := make([]byte, size)
		pattern(all, 1)
		if _, err := n.WriteAt(all, 0); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 100 { // offsets and lengths of all kinds
			off, length := rng.IntN(size), rng.IntN(20000)
			b := make([]byte, length)
			got, err := n.ReadAt(b, int64(off))
			want := min(length, size-off)
			if got != want || (want < length) != (err == io.EOF) || err != nil && err != io.EOF {
				t.Fatalf("ReadAt of %d at %d: %d, %v", length, off, got, err)
			}
			if !bytes.Equal(b[:got], all[off:off+got]) {
				t.Fatalf("%d bytes at %d differ", got, off)
			}
		}
		if _, err := n.ReadAt(make([]byte, 1), size); err != io.EOF {
			t.Errorf("reading at the end: %v, want %v", err, io.EOF)
		}
		if _, err := n.ReadAt(make([]byte, 1), -1); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("reading at -1: %v, want %v", err, ErrOutOfRange)
		}
		for _, c := range []struct {
			off    int64
			length int
			want   error
		}{
			{1, 4096, ErrUnaligned}, {4096, 100, ErrUnaligned}, {size, 4096, ErrOutOfRange},
			{size - 4096, 8192, ErrOutOfRange}, {-4096, 4096, ErrOutOfRange}, {0, 0, nil},
		} {
			if _, err := n.WriteAt(make([]byte, c.length), c.off); !errors.Is(err, c.want) {
				t.Errorf("WriteAt of %d at %d: %v, want %v", c.length, c.off, err, c.want)
			}
		}
		section, err := io.ReadAll(io.NewSectionReader(n, 1000, 100_000))
		if err != nil || !bytes.Equal(section, all[1000:101_000]) {
			t.Errorf("reading through a section reader: %d bytes, %v", len(section), err)
		}
	})
}

func TestZeroesAndDeallocate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newStore(t, 8<<20, 4096)
		r := newRig(t, rigConfig{stores: []backend.Store{store}})
		n := r.namespace(r.connect(r.options()))
		fill := func() {
			b := bytes.Repeat([]byte{0xff}, 8<<20)
			if _, err := n.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, off, length int64) {
			t.Helper()
			b := make([]byte, 8<<20)
			if _, err := n.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
			for i, x := range b {
				zero := int64(i) >= off && int64(i) < off+length
				if zero != (x == 0) {
					t.Fatalf("%s of %d at %d: byte %d is %#x", what, length, off, i, x)
				}
			}
		}
		fill()
		if err := n.WriteZeroes(4096, 5<<20, false); err != nil {
			t.Fatal(err)
		}
		check("WriteZeroes", 4096, 5<<20)
		fill()
		if err := n.WriteZeroes(8192, 8192, true); err != nil {
			t.Fatal(err)
		}
		check("WriteZeroes that frees", 8192, 8192)
		fill()
		if err := n.Deallocate(1<<20, 3<<20); err != nil {
			t.Fatal(err)
		}
		check("Deallocate", 1<<20, 3<<20)
		if err := n.WriteZeroes(1, 4096, false); !errors.Is(err, ErrUnaligned) {
			t.Errorf("unaligned WriteZeroes: %v", err)
		}
		if err := n.Deallocate(8<<20, 4096); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("Deallocate beyond the end: %v", err)
		}
	})
}

// TestManyReaders: buffers and queue entries are scarce.
func TestManyReaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}, host: Config{Shards: 2}, budget: 50_000})
		o := r.options()
		o.QueueSize, o.NrIOQueues, o.BounceMemory = 4, 3, 1<<20
		c := r.connect(o)
		n := r.namespace(c)
		if c.IOQueues() != 3 || c.QueueDepth() != 4 {
			t.Fatalf("%d queues of %d entries", c.IOQueues(), c.QueueDepth())
		}
		rounds := 5
		if *long {
			rounds = 20
		}
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				b := make([]byte, 1<<20)
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for i := range rounds {
					size := 4096 * (1 + rng.IntN(256))
					off := int64(g) << 20
					pattern(b[:size], g+i)
					want := bytes.Clone(b[:size])
					if _, err := n.WriteAt(b[:size], off); err != nil {
						t.Errorf("WriteAt: %v", err)
						return
					}
					clear(b)
					if _, err := n.ReadAt(b[:size], off); err != nil || !bytes.Equal(b[:size], want) {
						t.Errorf("reader %d: data differ, or %v", g, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestStore runs the suite for local stores on a namespace: a namespace can replace a disk.
func TestStore(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Store {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 4<<20, 4096)}})
		return r.namespace(r.connect(r.options()))
	})
}

// TestQueue transfers data in batches through registered memory.
func TestQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		buffers, err := c.NewBuffers(8 << 20)
		if err != nil {
			t.Fatal(err)
		}
		q, err := n.OpenQueue(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		mem := buffers.Bytes()
		pattern(mem[:4<<20], 1)
		var writes, reads []backend.Request
		const size = 64 << 10
		for i := range 4 << 20 / size {
			at := int64(i * size)
			writes = append(writes, backend.Request{Tag: uint64(i), Op: backend.OpWrite, Offset: at, Length: size, Buf: mem[at : at+size]})
			reads = append(reads, backend.Request{Tag: uint64(i), Op: backend.OpRead, Offset: at, Length: size, Buf: mem[4<<20+at:][:size]})
		}
		for _, rs := range [][]backend.Request{writes, reads} {
			seen := map[uint64]bool{}
			var results [5]backend.Result
			for left := rs; len(seen) < len(rs); {
				took := q.Submit(left)
				left = left[took:]
				if len(left) > 0 && q.inFlight != 8 {
					t.Fatalf("%d requests in flight of a queue of 8", q.inFlight)
				}
				if err := q.Wait(); err != nil {
					t.Fatal(err)
				}
				for _, x := range results[:q.Poll(results[:])] {
					if x.Err != nil || seen[x.Tag] {
						t.Fatalf("request %d: %v, seen %v", x.Tag, x.Err, seen[x.Tag])
					}
					seen[x.Tag] = true
				}
			}
		}
		if !q.Idle() || !bytes.Equal(mem[:4<<20], mem[4<<20:]) {
			t.Error("data differ")
		}
		bad := []backend.Request{
			{Tag: 1, Op: backend.OpRead, Offset: 16 << 20, Length: 4096, Buf: mem[:4096]},
			{Tag: 2, Op: backend.OpWrite, Offset: 1, Length: 4096, Buf: mem[:4096]},
		}
		q.Submit(bad)
		var results [4]backend.Result
		if got := q.Poll(results[:]); got != 2 || results[0].Err == nil || results[1].Err == nil {
			t.Errorf("%d results of malformed requests: %v", got, results)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestQueueAllocates: neither host nor target allocates per command.
func TestQueueAllocates(t *testing.T) {
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}, host: Config{Shards: 1}})
	c := r.connect(r.options())
	n := r.namespace(c)
	buffers, err := c.NewBuffers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	q, err := n.OpenQueue(32, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	mem := buffers.Bytes()
	var rs []backend.Request
	for i := range 32 {
		op := backend.OpRead
		if i%2 == 1 {
			op = backend.OpWrite
		}
		rs = append(rs, backend.Request{Tag: uint64(i), Op: op, Offset: int64(i) * 8192, Length: 8192, Buf: mem[i*8192:][:8192]})
	}
	results := make([]backend.Result, 32)
	round := func() {
		q.Submit(rs)
		for left := len(rs); left > 0; {
			for _, x := range results[:q.Poll(results)] {
				if x.Err != nil {
					panic(x.Err)
				}
				left--
			}
		}
	}
	for range 50 {
		round()
	}
	if got := testing.AllocsPerRun(100, round); got > 0.5 {
		t.Errorf("%.2f allocations for 32 commands, want none", got)
	}
	if raceEnabled {
		t.Skip("under the race detector sync.Pool forgets on purpose")
	}
	b := mem[:4096]
	if got := testing.AllocsPerRun(200, func() { n.ReadAt(b, 0) }); got > 0.5 {
		t.Errorf("%.2f allocations per ReadAt, want none", got)
	}
}

// TestStatus: the caller gets the status of a failed command as text, and the controller stays usable.
func TestStatus(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		n.size.Store(2 * n.Size()) // as if the namespace had shrunk since
		_, err := n.ReadAt(make([]byte, 4096), 1<<20)
		var status *StatusError
		if !errors.As(err, &status) || status.Status.Code() != capsule.StatusLBAOutOfRange || status.Command != "Read" {
			t.Errorf("reading beyond the end: %v", err)
		}
		if !errors.Is(err, backend.ErrOutOfRange) {
			t.Errorf("%v is not recognised as %v", err, backend.ErrOutOfRange)
		}
		if _, err := n.ReadAt(make([]byte, 4096), 0); err != nil {
			t.Errorf("reading after an error: %v", err)
		}
	})
}

// TestWithoutWindows: devices without memory windows work with shared keys.
func TestWithoutWindows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{
			stores: []backend.Store{newStore(t, 1<<20, 512)},
			attrs:  func(a *rdmatransport.Attrs) { a.Windows, a.MaxInline = false, 0 },
		})
		n := r.namespace(r.connect(r.options()))
		b := make([]byte, 256<<10)
		pattern(b, 1)
		want := bytes.Clone(b)
		if _, err := n.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		clear(b)
		if _, err := n.ReadAt(b, 0); err != nil || !bytes.Equal(b, want) {
			t.Errorf("data differ, or %v", err)
		}
	})
}
