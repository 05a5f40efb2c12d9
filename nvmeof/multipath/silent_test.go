package multipath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// readable reports whether a descriptor is readable now.
func readable(t *testing.T, fd int) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// A silenced owner uses a queue from one goroutine while peers stop responding. It tracks the expected content of each
// block.
type silenced struct {
	t       *testing.T
	q       *Queue
	watched bool // it sleeps on the descriptor; else it polls
	round   uint64
	buffers [depth][loadBlock]byte
}

// submit writes a block with every second request, and reads one of the previous round with the others.
func (p *silenced) submit() {
	p.round++
	var rs []backend.Request
	for i := range depth {
		r := backend.Request{Tag: uint64(i), Op: backend.OpRead, Length: loadBlock, Buf: p.buffers[i][:]}
		k := int64(i)
		if (uint64(i)+p.round)%2 == 0 {
			r.Op = backend.OpWrite
			fill(r.Buf, k, p.round)
		}
		r.Offset = k * loadBlock
		rs = append(rs, r)
	}
	if n := p.q.Submit(rs); n != depth {
		p.t.Fatalf("queue took %d of %d", n, depth)
	}
}

// drain waits for all results, on the descriptor if watched is set, and checks them.
func (p *silenced) drain() {
	p.t.Helper()
	const nap = time.Millisecond // of the bubble's clock, which passes half a minute
	var rs [depth]backend.Result
	for left, end := depth, time.Now().Add(time.Hour); left > 0; {
		n := p.q.Poll(rs[:])
		for _, r := range rs[:n] {
			if r.Err != nil {
				p.t.Fatalf("request %d: %v", r.Tag, r.Err)
			}
			if (r.Tag+p.round)%2 == 1 && p.round > 1 {
				if err := check(p.buffers[r.Tag][:], int64(r.Tag), p.round-1); err != nil {
					p.t.Error(err)
				}
			}
		}
		if left -= n; n > 0 {
			continue
		}
		if !p.watched {
			time.Sleep(nap)
		} else if p.q.Arm() {
			for !readable(p.t, p.q.Descriptor()) && time.Now().Before(end) {
				time.Sleep(nap)
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d results to come after an hour", left)
		}
	}
}

// TestSilentLoss: peers stop responding while a queue has requests outstanding, whose owner polls or sleeps on the
// descriptor. All requests complete on the other path, or when the only path is back, within the times of the timers.
func TestSilentLoss(t *testing.T) {
	for _, tt := range []struct {
		name    string
		targets int
		watched bool
		submit  bool // before the cut
		often   bool // in the quick form, too
	}{
		{"polled, two paths", 2, false, true, true},
		{"watched, two paths", 2, true, true, false},
		{"watched, two paths, cut first", 2, true, false, true},
		{"polled, one path", 1, false, true, false},
		{"watched, one path", 1, true, true, true},
		{"watched, one path, cut first", 1, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.often && !*long {
				t.Skip("others have each of its parts: -long")
			}
			inBubble(t, func(t *testing.T) {
				l := newLab(t, tt.targets)
				cfg := l.config()
				cfg.Policy = RoundRobin
				s := l.connect(cfg)
				q, err := l.namespace(s).OpenQueue(depth, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tt.watched && q.Descriptor() < 0 {
					t.Fatal("no descriptor")
				}
				p := &silenced{t: t, q: q, watched: tt.watched}
				for i, side := range l.sides {
					for range 3 {
						p.submit()
						p.drain()
					}
					if tt.submit {
						p.submit()
						l.sever(side, true)
					} else {
						l.sever(side, true)
						p.submit()
					}
					least, most := time.Duration(0), 12*time.Second
					if tt.targets == 1 {
						least, most = 20*time.Second, 35*time.Second
						time.AfterFunc(20*time.Second, func() { l.sever(side, false) })
					}
					d, _ := took(func() error { p.drain(); return nil })
					wantBetween(t, "the round under the cut", d, least, most)
					if st := s.Paths()[i].Status().State; tt.targets == 2 && st == StateLive {
						t.Errorf("the path that was cut is %v", st)
					}
					l.sever(side, false)
					l.await(s.Paths()[i], StateLive)
					p.submit()
					p.drain()
				}
				l.must(q.Close())
			})
		})
	}
}
