package multipath

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// TestStore: a namespace over two paths can replace a disk, also if one of them gets all requests.
func TestStore(t *testing.T) {
	for _, policy := range []Policy{NUMA, RoundRobin} {
		t.Run(policy.String(), func(t *testing.T) {
			if policy == NUMA && !*long {
				t.Skip("with one path it is TestStore of package host: -long")
			}
			backendtest.Run(t, func(t *testing.T) backend.Store {
				l := newLabOn(t, 2, rdmatest.NewLoopback())
				cfg := l.config()
				cfg.Policy = policy
				return l.namespace(l.connect(cfg))
			})
		})
	}
}

// TestPolicies: on which paths a batch is sent.
func TestPolicies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		for policy, want := range map[Policy]func(a, b uint64) bool{
			NUMA:       func(a, b uint64) bool { return a == 64 && b == 0 },
			RoundRobin: func(a, b uint64) bool { return a == 32 && b == 32 },
			QueueDepth: func(a, b uint64) bool { return a == 32 && b == 32 },
			Latency:    func(a, b uint64) bool { return a > 0 && b > 0 && a+b == 64 },
		} {
			cfg := l.config()
			cfg.Policy = policy
			s := l.connect(cfg)
			n := l.namespace(s)
			q, err := n.OpenQueue(64, nil)
			if err != nil {
				t.Fatal(err)
			}
			var rs []backend.Request
			for i := range 64 {
				rs = append(rs, backend.Request{Tag: uint64(i), Op: backend.OpRead, Offset: int64(i) * 512, Length: 512, Buf: make([]byte, 512)})
			}
			if got := q.Submit(append(rs, rs[0])); got != 64 {
				t.Errorf("a queue of 64 took %d", got)
			}
			drain(t, q, 64)
			a, b := s.Paths()[0].Status(), s.Paths()[1].Status()
			if !want(a.Completed, b.Completed) || a.Latency == 0 || a.InFlight != 0 {
				t.Errorf("%v: %+v and %+v", policy, a, b)
			}
			l.must(q.Close())
			l.must(s.Close())
		}
	})
}

// drain polls for n results without an error.
func drain(t testing.TB, q *Queue, n int) {
	results := make([]backend.Result, 32)
	for n > 0 {
		k := q.Poll(results)
		for _, r := range results[:k] {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if n -= k; k == 0 {
			if err := q.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		n := l.namespace(l.connect(l.config()))
		q, err := n.OpenQueue(2, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Submit([]backend.Request{{Op: backend.OpRead, Offset: testSize, Length: 512, Buf: make([]byte, 512)}})
		var rs [1]backend.Result
		if q.Poll(rs[:]) != 1 || !errors.Is(rs[0].Err, backend.ErrOutOfRange) || !q.Idle() {
			t.Errorf("%v", rs[0].Err)
		}
		if _, err := n.WriteAt(make([]byte, 512), testSize); err == nil {
			t.Error("a write beyond the end")
		}
		for _, depth := range []int{0, maxQueueDepth + 1} {
			if _, err := n.OpenQueue(depth, nil); err == nil {
				t.Errorf("a queue of %d", depth)
			}
		}
		l.must(q.Close())
		l.must(q.Close())
		if q.Submit([]backend.Request{{Op: backend.OpFlush}}) != 0 {
			t.Error("a closed queue takes requests")
		}
	})
}

// TestAllocations: a healthy path does not allocate, with any policy.
func TestAllocations(t *testing.T) {
	for policy := range Latency + 1 {
		t.Run(policy.String(), func(t *testing.T) {
			l := newLabOn(t, 2, rdmatest.NewLoopback())
			cfg := l.config()
			cfg.Policy = policy
			s := l.connect(cfg)
			n := l.namespace(s)
			buffers, err := s.NewBuffers(256 << 10)
			if err != nil {
				t.Fatal(err)
			}
			q, err := n.OpenQueue(32, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			var rs []backend.Request
			for i := range 32 {
				op := backend.OpRead
				if i%2 == 1 {
					op = backend.OpWrite
				}
				rs = append(rs, backend.Request{Tag: uint64(i), Op: op, Offset: int64(i) * 8192, Length: 8192, Buf: buffers.Bytes()[i*8192:][:8192]})
			}
			results := make([]backend.Result, 32)
			round := func() {
				q.Submit(rs)
				for left := len(rs); left > 0; {
					left -= q.Poll(results)
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
			b := buffers.Bytes()[:4096]
			if got := testing.AllocsPerRun(200, func() { n.ReadAt(b, 0) }); got > 0.5 {
				t.Errorf("%.2f allocations per ReadAt, want none", got)
			}
		})
	}
}

// TestCloseInFlight: requests of a closed queue count as in flight on the path until they have completed, so that
// identifying a namespace, and Delete, wait for them.
func TestCloseInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		n := l.namespace(l.connect(l.config()))
		q, err := n.OpenQueue(4, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := n.sub.Paths()[0]
		a := p.session.spaces[n]
		l.sever(l.sides[0], true)
		q.Submit([]backend.Request{{Op: backend.OpFlush}, {Tag: 1, Op: backend.OpFlush}})
		closed := make(chan error, 1)
		go func() { closed <- q.Close() }() // ends when the path is lost
		time.Sleep(time.Second)
		if got := p.Status().InFlight; got != 2 || a.inFlight.Load() != 2 {
			t.Errorf("%d requests are on the path, %d of them for the namespace", got, a.inFlight.Load())
		}
		l.must(<-closed)
		if got := p.Status().InFlight; got != 0 {
			t.Errorf("%d requests are on the path afterwards", got)
		}
	})
}
