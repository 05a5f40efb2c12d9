package memory

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// The conformance suite looks for this flag, too.
var long = flag.Bool("long", false, "four times as long for what goes on for some time, and larger stores")

// size is the size of the stores for the suite.
func size() int64 {
	if *long {
		return 20 << 20
	}
	return 8 << 20
}

func newStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, cfg := range []Config{
		{Size: size()},
		{Size: size(), BlockSize: 512},
		{Size: size() - 512, BlockSize: 512, Pinned: true},
		{Size: size() - 512, BlockSize: 512, Pool: pool(t)},
	} {
		t.Run(fmt.Sprintf("%d bytes in blocks of %d, pinned=%v, pool=%v", cfg.Size, cfg.BlockSize, cfg.Pinned, cfg.Pool != nil), func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backend.Store { return newStore(t, cfg) })
		})
	}
}

// TestConformanceOpened: a store that another process takes over passes the suite, too.
func TestConformanceOpened(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Store {
		running := pool(t)
		first := newStore(t, Config{Size: size(), BlockSize: 512, Pool: running})
		s, err := moved(t, running).Open(first.Offset())
		if err = errors.Join(err, running.Close(), first.Close()); err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Size: -4096},
		{Size: 4095},
		{Size: 511, BlockSize: 512},
		{Size: 1 << 20, BlockSize: 1024},
		{Size: 1 << 20, BlockSize: -512},
		{Size: math.MaxInt64},
		{Size: 1 << 62},
	} {
		if s, err := New(cfg); err == nil {
			t.Errorf("New(%+v) succeeded with %d bytes", cfg, s.Info().Size)
		}
	}
}

func TestSizeIsWholeBlocks(t *testing.T) {
	for _, block := range []int{512, 4096} {
		s := newStore(t, Config{Size: 1<<20 - 1, BlockSize: block})
		if got, want := s.Info().Size, int64(1<<20-block); got != want || int64(len(s.Memory())) != want {
			t.Errorf("size %d, memory %d, want %d", got, len(s.Memory()), want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// drive submits one request to an idle queue and returns how many Polls it took.
func drive(t testing.TB, q backend.Queue, r backend.Request) int {
	t.Helper()
	if q.Submit([]backend.Request{r}) != 1 {
		t.Fatal("Submit took nothing")
	}
	var got [1]backend.Result
	for polls := 1; ; polls++ {
		if q.Poll(got[:]) == 1 {
			if got[0].Err != nil {
				t.Fatal(got[0].Err)
			}
			return polls
		}
	}
}

func openQueue(t testing.TB, s *Store) backend.Queue {
	t.Helper()
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func TestAllocated(t *testing.T) {
	s := newStore(t, Config{Size: 64 << 20})
	q := openQueue(t, s)
	wantAllocated := func(want int64, what string) {
		t.Helper()
		if got, err := s.Allocated(); err != nil || got != want {
			t.Errorf("after %s %d bytes are allocated (%v), want %d", what, got, err, want)
		}
	}
	const m = 1 << 20
	buf := make([]byte, m)
	wantAllocated(0, "nothing")
	drive(t, q, backend.Request{Op: backend.OpRead, Length: m, Buf: buf})
	drive(t, q, backend.Request{Op: backend.OpWriteZeroes, Length: 64 << 20})
	wantAllocated(0, "reading and zeroing")
	drive(t, q, backend.Request{Op: backend.OpWrite, Offset: 4096, Length: m, Buf: buf})
	drive(t, q, backend.Request{Op: backend.OpWrite, Offset: 8192, Length: 4096, Buf: buf[:4096]})
	wantAllocated(m, "writing 1 MiB, partly twice")
	drive(t, q, backend.Request{Op: backend.OpWriteZeroes, Length: 64 << 20})
	wantAllocated(m, "zeroing")
	drive(t, q, backend.Request{Op: backend.OpDeallocate, Offset: 4096 * 3, Length: 4096 * 2})
	drive(t, q, backend.Request{Op: backend.OpDeallocate, Offset: 4096 * 4, Length: 4096 * 4})
	wantAllocated(m-5*4096, "deallocating 5 blocks, one of them twice")
	if !s.TryLease(5*m, m, true) {
		t.Fatal("no lease")
	}
	s.Release(5*m, m, true)
	wantAllocated(2*m-5*4096, "leasing 1 MiB to write")
	drive(t, q, backend.Request{Op: backend.OpWriteZeroes, Length: 64 << 20, Deallocate: true})
	wantAllocated(0, "deallocating all")
}

// BAD-INPUT: a request for a range as long as the store does not stop its shard.
func TestLongRangesGoInSteps(t *testing.T) {
	const size = 16 << 20
	s := newStore(t, Config{Size: size})
	q := openQueue(t, s)
	s.used.set(0, size)
	if got, want := drive(t, q, backend.Request{Op: backend.OpWriteZeroes, Length: size}), size/zeroStep/2; got < want {
		t.Errorf("zeroing %d bytes took %d polls, want at least %d", size, got, want)
	}
	if got, want := drive(t, q, backend.Request{Op: backend.OpDeallocate, Length: size}), size/region/2; got < want {
		t.Errorf("deallocating %d bytes took %d polls, want at least %d", size, got, want)
	}
}

// TestDeallocateHoldsWhatIsUsed: users of blocks in an unused part of a range do not wait for the deallocation of the
// range, nor does it wait for them.
func TestDeallocateHoldsWhatIsUsed(t *testing.T) {
	s := newStore(t, Config{Size: 64 << 20})
	q := openQueue(t, s)
	const page = 4096
	buf := make([]byte, 3*page)
	for i := range buf {
		buf[i] = 0xa5
	}
	for _, at := range []int64{5 * page, 1<<20 - page, region - 2*page, 60 << 20} { // the third in two regions
		drive(t, q, backend.Request{Op: backend.OpWrite, Offset: at, Length: 3 * page, Buf: buf})
	}
	for _, at := range []int64{0, 8 * page, 1<<20 - 2*page, 40 << 20} {
		if !s.TryLease(at, page, false) {
			t.Fatal("no lease")
		}
		defer s.Release(at, page, false)
	}
	for _, r := range []backend.Request{
		{Op: backend.OpWriteZeroes, Offset: page, Length: 64<<20 - page},
		{Op: backend.OpDeallocate, Offset: page, Length: 64<<20 - page},
	} {
		if q.Submit([]backend.Request{r}); q.Idle() {
			t.Fatal("Submit took nothing")
		}
		for polls, got := 0, make([]backend.Result, 1); q.Poll(got) == 0; polls++ {
			if polls == 1000 {
				t.Fatalf("%v waits for what it has nothing to do with", r.Op)
			}
		}
	}
	for i, b := range s.Memory() {
		if b != 0 {
			t.Fatalf("byte %#x is %#x", i, b)
		}
	}
	if n, _ := s.Allocated(); n != 0 {
		t.Errorf("%d bytes are allocated", n)
	}
}

// faults returns how many page faults the calling thread has had.
func faults(t *testing.T) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return int64(u.Minflt)
}

// TestDeallocateAgain: for a host that writes and deallocates the same blocks in turn, the pages are populated only
// occasionally and not each time, since all others would wait for that.
func TestDeallocateAgain(t *testing.T) {
	s := newStore(t, Config{Size: size()})
	q := openQueue(t, s)
	const size, rounds = 256 << 10, 100
	buf := make([]byte, size)
	for i := range buf {
		buf[i] = 0xa5
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, before := time.Now(), faults(t)
	for range rounds {
		drive(t, q, backend.Request{Op: backend.OpWrite, Length: size, Buf: buf})
		drive(t, q, backend.Request{Op: backend.OpDeallocate, Length: 2 << 20})
		if s.Memory()[0] != 0 || s.Memory()[size-1] != 0 {
			t.Fatal("deallocated blocks are not zero")
		}
	}
	often := int64(time.Since(began)/keepTime) + 2
	if n := faults(t) - before; n > often*size/4096+200 {
		t.Errorf("%d page faults in %d rounds", n, rounds)
	}
	if n, _ := s.Allocated(); n != 0 {
		t.Errorf("%d bytes are allocated", n)
	}
}

// TestDeallocateGivesBack: pages that were kept go back to the operating system when their region is later deallocated
// as a whole.
func TestDeallocateGivesBack(t *testing.T) {
	for _, movable := range []bool{false, true} {
		t.Run(fmt.Sprintf("movable=%v", movable), func(t *testing.T) { testGivesBack(t, movable) })
	}
}

func testGivesBack(t *testing.T, movable bool) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Size: 2*region + 512, BlockSize: 512}
		if movable {
			cfg.Pool = pool(t)
		}
		s := newStore(t, cfg)
		q := openQueue(t, s)
		buf := make([]byte, 2*region+512)
		for i := range buf {
			buf[i] = 0xa5
		}
		whole := func(op backend.Op) {
			drive(t, q, backend.Request{Op: op, Length: 2*region + 512, Buf: buf})
		}
		resident := func() (n int) {
			pages := make([]byte, len(s.memory)/os.Getpagesize())
			if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&s.memory[0])), uintptr(len(s.memory)),
				uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
				t.Fatal(errno)
			}
			for _, r := range pages {
				n += int(r & 1)
			}
			return n
		}
		for range 2 {
			time.Sleep(time.Millisecond)
			whole(backend.OpWrite)
			whole(backend.OpDeallocate)
			if i := slices.IndexFunc(s.Memory(), func(b byte) bool { return b != 0 }); i >= 0 {
				t.Fatalf("byte %#x is not zero", i)
			}
		}
		if n := resident(); n < len(s.memory)/os.Getpagesize()/2 {
			t.Errorf("%d pages were kept", n)
		}
		time.Sleep(2 * keepTime)
		whole(backend.OpDeallocate)
		if n := resident(); n > 1 { // the last block is part of a page
			t.Errorf("%d pages are kept", n)
		}
	})
}

// TestRun compares runs with those found byte by byte.
func TestRun(t *testing.T) {
	const units = 200
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		p := newPages(units << pageShift)
		var in [units]bool
		for range random.IntN(4) {
			first := random.IntN(units)
			for i := first; i < min(first+random.IntN(100), units); i++ {
				in[i] = true
				p.set(int64(i)<<pageShift, 1)
			}
		}
		offset := random.Int64N(units << pageShift)
		length := 1 + random.Int64N(units<<pageShift-offset)
		at := offset
		for at < offset+length && !in[at>>pageShift] {
			at = min((at>>pageShift+1)<<pageShift, offset+length)
		}
		end := at
		for end < offset+length && in[end>>pageShift] {
			end = min((end>>pageShift+1)<<pageShift, offset+length)
		}
		gotAt, got := p.run(offset, length)
		if got != end-at || got > 0 && gotAt != at {
			t.Fatalf("%d bytes at %#x, want %d at %#x, of %v from %#x, %d bytes", got, gotAt, end-at, at, in, offset, length)
		}
	}
}

// TestPinned: the pages are the device's, so deallocation must not replace them.
func TestPinned(t *testing.T) {
	s := newStore(t, Config{Size: 1 << 20, Pinned: true})
	q := openQueue(t, s)
	if s.Info().Deallocate {
		t.Error("says that deallocating frees storage")
	}
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = 1
	}
	drive(t, q, backend.Request{Op: backend.OpWrite, Length: 1 << 20, Buf: buf})
	drive(t, q, backend.Request{Op: backend.OpDeallocate, Length: 1 << 20})
	resident := make([]byte, (1<<20)/4096)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&s.memory[0])), 1<<20,
		uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for i, r := range resident[:(1<<20)/os.Getpagesize()] {
		if r&1 == 0 {
			t.Fatalf("page %d was given back", i)
		}
	}
	if got, _ := s.Allocated(); got != 1<<20 {
		t.Errorf("%d bytes allocated", got)
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, bb := range []struct {
		name  string
		op    backend.Op
		size  int64
		depth int
	}{
		{"read4kQD1", backend.OpRead, 4096, 1}, {"read4kQD32", backend.OpRead, 4096, 32},
		{"write4kQD32", backend.OpWrite, 4096, 32}, {"read128kQD16", backend.OpRead, 1 << 17, 16},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const size = 256 << 20
			s := newStore(b, Config{Size: size})
			q, err := s.NewQueue(bb.depth, nil)
			if err != nil {
				b.Fatal(err)
			}
			rs := make([]backend.Request, bb.depth)
			for i := range rs {
				rs[i] = backend.Request{Op: bb.op, Length: bb.size, Buf: make([]byte, bb.size)}
			}
			got := make([]backend.Result, bb.depth)
			offset := int64(0)
			b.SetBytes(bb.size)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%bb.depth != 0 {
					continue
				}
				for j := range rs {
					offset = (offset + 37*bb.size) % size
					rs[j].Offset = offset
				}
				q.Submit(rs)
				if q.Poll(got) != bb.depth {
					b.Fatal("results missing")
				}
			}
			q.Close()
			s.Close()
		})
	}
}
