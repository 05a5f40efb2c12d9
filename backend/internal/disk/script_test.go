package disk

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// A script is the engine of one queue. The test ends its calls, in any order and with any outcome. It keeps the content
// of the file itself.
type script struct {
	t        *testing.T
	kernel   *kernel
	calls    []call // outstanding
	outcomes []outcome
	aborts   bool // the kernel has begun nothing
}

// A kernel is the shared state of the scripts of one disk. It checks that no two conflicting calls are outstanding
// together.
type kernel struct {
	scripts []*script
	started []string // every call, in words
}

// scripted opens a disk whose queues have scripts.
func scripted(t *testing.T, cfg Config) (*Disk, *kernel) {
	t.Helper()
	cfg.Engine = EngineThreads
	s := openDisk(t, cfg)
	d := &kernel{}
	s.newEngine = func(*Disk, int, func()) (engine, error) {
		e := &script{t: t, kernel: d}
		d.scripts = append(d.scripts, e)
		return e, nil
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, d
}

func (e *script) start(c call) {
	for _, other := range e.kernel.scripts {
		for _, o := range other.calls {
			if conflict(c, o) {
				e.t.Errorf("%s and %s are in the kernel together", words(c), words(o))
			}
		}
	}
	e.calls = append(e.calls, c)
	e.kernel.started = append(e.kernel.started, words(c))
}

func (c *call) bytes() int64 {
	if c.kind == callAllocate || c.kind == callDiscard {
		return c.length
	}
	return int64(len(c.buf))
}

func conflict(a, b call) bool {
	if a.kind == callSync || b.kind == callSync {
		return a.kind == b.kind // one at a time
	}
	return (a.kind != callRead || b.kind != callRead) &&
		a.offset < b.offset+b.bytes() && b.offset < a.offset+a.bytes()
}

func words(c call) string {
	switch {
	case c.kind == callSync:
		return "sync"
	case c.kind == callDiscard:
		return fmt.Sprintf("discard %d+%d", c.offset, c.bytes())
	case c.kind == callRead:
		return fmt.Sprintf("read %d+%d", c.offset, c.bytes())
	case c.kind == callWrite && c.flags == unix.RWF_DSYNC:
		return fmt.Sprintf("write durably %d+%d", c.offset, c.bytes())
	case c.kind == callWrite && c.flags == 0:
		return fmt.Sprintf("write %d+%d", c.offset, c.bytes())
	case c.flags == unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE:
		return fmt.Sprintf("punch %d+%d", c.offset, c.bytes())
	case c.flags == unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE:
		return fmt.Sprintf("zero %d+%d", c.offset, c.bytes())
	}
	return fmt.Sprintf("%+v", c)
}

// end ends the i-th outstanding call.
func (e *script) end(i int, n int64, errno unix.Errno) {
	e.t.Helper()
	if i >= len(e.calls) {
		e.t.Fatalf("call %d of %d outstanding ones", i, len(e.calls))
	}
	e.outcomes = append(e.outcomes, outcome{id: e.calls[i].id, n: int32(n), errno: errno})
	e.calls = slices.Delete(e.calls, i, i+1)
}

// succeed ends the oldest call like the kernel.
func (e *script) succeed() {
	e.t.Helper()
	if len(e.calls) == 0 {
		e.t.Fatal("no call is outstanding")
	}
	e.end(0, int64(len(e.calls[0].buf)), 0)
}

func (e *script) submit() {}

func (e *script) reap(outs []outcome) int {
	n := copy(outs, e.outcomes)
	e.outcomes = e.outcomes[n:]
	return n
}

func (e *script) arm() bool { return false }
func (e *script) disarm()   {}

func (e *script) abort() {
	for e.aborts && len(e.calls) > 0 {
		e.end(0, 0, unix.ECANCELED)
	}
}

// wait is called by Close: the kernel ends everything eventually.
func (e *script) wait() error {
	if e.aborts {
		e.t.Error("Close waits for what the kernel has not begun")
	}
	if len(e.calls) > 0 {
		e.succeed()
	}
	return nil
}

func (e *script) release() {}

func (e *script) close() error {
	e.kernel.scripts = slices.DeleteFunc(e.kernel.scripts, func(o *script) bool { return o == e })
	return nil
}

// A tester is a queue on a script.
type tester struct {
	t *testing.T
	*script
	q       backend.Queue
	block   int64
	results map[uint64]error
	wakes   atomic.Int64 // copies call notify in their goroutines
}

func (d *kernel) queue(t *testing.T, s *Disk) *tester {
	t.Helper()
	qt := &tester{t: t, block: s.block, results: map[uint64]error{}}
	q, err := s.NewQueue(16, func() { qt.wakes.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	qt.q = q
	qt.script = d.scripts[len(d.scripts)-1]
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close of queue: %v", err)
		}
	})
	return qt
}

func (qt *tester) submit(tag uint64, op backend.Op, offset, length int64, change ...func(*backend.Request)) {
	qt.t.Helper()
	r := backend.Request{Tag: tag, Op: op, Offset: offset, Length: length}
	if op == backend.OpRead || op == backend.OpWrite {
		r.Buf = backendtest.Buffer(int(length), 4096)
	}
	for _, f := range change {
		f(&r)
	}
	if n := qt.q.Submit([]backend.Request{r}); n != 1 {
		qt.t.Fatalf("Submit took %d", n)
	}
}

func fua(r *backend.Request)        { r.FUA = true }
func deallocate(r *backend.Request) { r.Deallocate = true }

// poll collects results.
func (qt *tester) poll() {
	qt.t.Helper()
	var got [16]backend.Result
	for {
		n := qt.q.Poll(got[:])
		if qt.q.Idle() && len(qt.calls) > 0 {
			qt.t.Errorf("an idle queue has %q in the kernel", words(qt.calls[0]))
		}
		if n == 0 {
			return
		}
		for _, r := range got[:n] {
			if _, twice := qt.results[r.Tag]; twice {
				qt.t.Errorf("request %d has two results", r.Tag)
			}
			qt.results[r.Tag] = r.Err
		}
	}
}

// wantCalls fails unless exactly these calls are outstanding.
func (qt *tester) wantCalls(want ...string) {
	qt.t.Helper()
	var got []string
	for _, c := range qt.calls {
		got = append(got, words(c))
	}
	if !slices.Equal(got, want) {
		qt.t.Fatalf("outstanding: %q, want %q", got, want)
	}
}

// want fails unless exactly this request has a result now, and it is this one.
func (qt *tester) want(tag uint64, want error) {
	qt.t.Helper()
	qt.poll()
	err, ok := qt.results[tag]
	if !ok || !errors.Is(err, want) {
		qt.t.Fatalf("result of request %d: %v (there: %v), want %v", tag, err, ok, want)
	}
	delete(qt.results, tag)
	qt.wantNothing()
}

func (qt *tester) wantNothing() {
	qt.t.Helper()
	qt.poll()
	if len(qt.results) > 0 {
		qt.t.Fatalf("unexpected results: %v", qt.results)
	}
}

// sameMemory reports whether a call's buffer is the tail of a request's.
func sameMemory(c call, b []byte) bool {
	return len(c.buf) == len(b) && unsafe.SliceData(c.buf) == unsafe.SliceData(b)
}
