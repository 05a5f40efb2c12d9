package multipath

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestHostCloses: a path whose host the program closes before its subsystem is given up, since nothing can come of it any
// more, however long lost paths are waited for: what was on its way, or comes, goes over another one, or fails.
func TestHostCloses(t *testing.T) {
	for _, paths := range []int{1, 2} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, paths)
			c := l.config()
			d := l.open("192.0.2.77")
			h, err := host.New(host.Config{Identity: l.host.Identity(), Device: d, Shards: 1, Polling: nvmeof.PollNever})
			l.must(err)
			for i := range c.Paths {
				c.Paths[i].Timers = Timers{CtrlLossTmo: -1}
			}
			c.Paths[0].Host = h
			s := l.connect(c)
			n := l.namespace(s)
			q, err := n.OpenQueue(1, nil)
			l.must(err)
			var results [1]backend.Result
			read := func(then func()) error {
				t.Helper()
				q.Submit([]backend.Request{{Op: backend.OpRead, Buf: make([]byte, 512), Length: 512}})
				then()
				for end := time.Now().Add(time.Minute); q.Poll(results[:]) == 0; {
					if time.Now().After(end) {
						t.Fatalf("%d paths: a request waits, and the first path is %+v", paths, s.Paths()[0].Status())
					}
					time.Sleep(time.Millisecond)
				}
				return results[0].Err
			}
			l.must(read(func() {}))
			l.sever(l.sides[0], true) // so that it is on its way
			for _, first := range []bool{true, false} {
				err := read(func() {
					if first {
						_ = h.Close() // its controller does not answer
						l.must(d.Close())
					}
				})
				if paths == 2 && err != nil || paths == 1 && !errors.Is(err, host.ErrClosed) {
					t.Errorf("%d paths, first %v: %v", paths, first, err)
				}
			}
			l.await(s.Paths()[0], StateDead)
			if _, err := n.ReadAt(make([]byte, 512), 0); (err == nil) != (paths == 2) || err != nil && !errors.Is(err, host.ErrClosed) {
				t.Errorf("%d paths, ReadAt: %v", paths, err)
			}
			l.must(q.Close())
		})
	}
}
