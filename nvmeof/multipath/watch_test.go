package multipath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// A watcher owns a queue and sleeps on its descriptor.
type watcher struct {
	t  testing.TB
	q  *Queue
	rs [32]backend.Result
}

func newWatcher(t testing.TB, n *Namespace) *watcher {
	q, err := n.OpenQueue(32, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, q: q}
	if fd := q.Descriptor(); fd < 0 || fd != q.Descriptor() {
		t.Fatalf("descriptor %d", fd)
	}
	return w
}

// sleep waits for the descriptor, and reports whether it became readable.
func (w *watcher) sleep(d time.Duration) bool {
	fds := [1]unix.PollFd{{Fd: int32(w.q.Descriptor()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], int(d.Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// drain takes n results, and sleeps between them.
func (w *watcher) drain(n int) {
	for n > 0 {
		k := w.q.Poll(w.rs[:])
		for _, r := range w.rs[:k] {
			if r.Err != nil {
				w.t.Fatal(r.Err)
			}
		}
		if n -= k; k == 0 && w.q.Arm() && !w.sleep(30*time.Second) {
			w.t.Fatalf("nothing in 30 s; %d results to come", n)
		}
	}
}

func loopbackRequests(n int) (rs []backend.Request) {
	for i := range n {
		op := backend.OpRead
		if i%2 == 1 {
			op = backend.OpWrite
		}
		rs = append(rs, backend.Request{Tag: uint64(i), Op: op, Offset: int64(i) * 4096, Length: 4096, Buf: make([]byte, 4096)})
	}
	return rs
}

// TestWatchFailover: one descriptor signals for all paths, while they are lost and reconnect, and signals the end of a
// wait.
func TestWatchFailover(t *testing.T) {
	t.Parallel()
	l := newLabOn(t, 2, rdmatest.NewLoopback())
	cfg := l.config()
	cfg.Policy = RoundRobin
	for i := range cfg.Paths {
		cfg.Paths[i].ReconnectDelay = 100 * time.Millisecond
		cfg.Paths[i].ReplayDelay = 50 * time.Millisecond
	}
	s := l.connect(cfg)
	w := newWatcher(t, l.namespace(s))
	defer w.q.Close()
	rs := loopbackRequests(32)
	for range 3 {
		for at, side := range l.sides {
			for range 5 {
				w.q.Submit(rs)
				w.drain(len(rs))
			}
			w.q.Submit(rs)
			side.sub.AllowAnyHost(false) // which ends its controller
			w.drain(len(rs))
			other := l.sides[1-at]
			other.sub.AllowAnyHost(false) // nothing is left
			w.q.Submit(rs)
			go func() {
				time.Sleep(50 * time.Millisecond)
				other.sub.AllowAnyHost(true)
			}()
			w.drain(len(rs))
			side.sub.AllowAnyHost(true)
			l.await(s.Paths()[0], StateLive)
			l.await(s.Paths()[1], StateLive)
		}
		w.q.Arm()
		if w.sleep(20 * time.Millisecond) {
			t.Error("with nothing in flight, the descriptor is readable")
		}
	}
}

// TestWatchAllocations: polling with an Arm before each sleep does not allocate.
func TestWatchAllocations(t *testing.T) {
	l := newLabOn(t, 2, rdmatest.NewLoopback())
	cfg := l.config()
	cfg.Policy = RoundRobin
	s := l.connect(cfg)
	w := newWatcher(t, l.namespace(s))
	defer w.q.Close()
	buffers, err := s.NewBuffers(32 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	rs := loopbackRequests(32)
	for i := range rs {
		rs[i].Buf = buffers.Bytes()[i*4096:][:4096]
	}
	round := func() {
		w.q.Submit(rs)
		w.drain(len(rs))
	}
	for range 50 {
		round()
	}
	if got := testing.AllocsPerRun(100, round); got > 0.5 && !raceEnabled {
		t.Errorf("%.2f allocations for 32 commands, want none", got)
	}
}
