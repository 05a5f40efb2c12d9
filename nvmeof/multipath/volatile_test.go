package multipath

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A volatileStore reports a volatile cache.
type volatileStore struct{ backend.Store }

func (s volatileStore) Info() backend.Info {
	i := s.Store.Info()
	i.Volatile = true
	return i
}

// A kept is a target's state, which is no longer saved once the target is killed, because the targets of a lab are
// closed one after the other.
type kept struct {
	b      []byte
	killed bool
	away   error // why it cannot be read
}

func (k *kept) Load() ([]byte, error) { return k.b, k.away }

func (k *kept) Save(b []byte) error {
	if !k.killed {
		k.b = b
	}
	return nil
}

// volatileLab returns a lab with n targets in the first boot of their machines, and a store with a volatile cache.
func volatileLab(t *testing.T, targets int) *lab {
	t.Helper()
	l := newLab(t, targets)
	for _, s := range l.sides {
		s.stop()
		s.store, s.state, s.boot = volatileStore{l.store}, new(kept), "first"
		s.start()
	}
	return l
}

// restart kills a target, or closes it, and starts it in another boot of its machine, or in the same.
func (s *side) restart(kill, reboot bool) {
	k := s.state.(*kept)
	k.killed = kill
	s.kill()
	k.killed = false
	if reboot {
		s.boot += "+"
	}
	s.revive()
}

// TestWritesLost: a flush reports that earlier writes may be lost if the target's machine has restarted since they were
// acknowledged, only then, and only once.
func TestWritesLost(t *testing.T) {
	for _, row := range []struct {
		name                  string
		write, flush          bool // before
		kill, reboot, unknown bool // what happens; unknown: the target keeps no state
		through               bool // the store has no cache
		lost                  bool
	}{
		{name: "the machine loses power", write: true, kill: true, reboot: true, lost: true},
		{name: "nothing was written", kill: true, reboot: true},
		{name: "all was flushed", write: true, flush: true, kill: true, reboot: true},
		{name: "the target alone is killed", write: true, kill: true},
		{name: "the machine is restarted in order", write: true, reboot: true},
		{name: "the target alone is restarted", write: true},
		{name: "the store has no cache", write: true, kill: true, reboot: true, through: true},
		{name: "nobody knows", write: true, kill: true, reboot: true, unknown: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := volatileLab(t, 1)
				side := l.sides[0]
				if row.unknown || row.through {
					side.stop()
					if row.unknown {
						side.state = nil
					} else {
						side.store = l.store
					}
					side.start()
				}
				events := make(chan *Namespace, 100)
				cfg := l.config()
				cfg.NamespaceEvent = func(n *Namespace) { events <- n }
				s := l.connect(cfg)
				n := l.namespace(s)
				q, err := n.OpenQueue(4, nil)
				l.must(err)
				block := make([]byte, 512)
				if row.write {
					_, err := n.WriteAt(block, 0)
					l.must(err)
				}
				if row.flush {
					l.must(n.Flush())
				}
				if row.unknown {
					side.kill()
					side.boot = "second"
					side.revive()
				} else {
					side.restart(row.kill, row.reboot)
				}
				l.await(s.Paths()[0], StateLost)
				l.await(s.Paths()[0], StateLive)
				if got := n.Losses() > 0; got != row.lost || row.lost && len(events) == 0 {
					t.Errorf("%d losses, %d events", n.Losses(), len(events))
				}
				_, err = n.WriteAt(block, 0) // on the new target
				l.must(err)
				for i, err := range []error{one(q, backend.Request{Op: backend.OpFlush}), one(q, backend.Request{Op: backend.OpFlush}), n.Flush()} {
					if lost := row.lost && i == 0; errors.Is(err, ErrWritesLost) != lost || err != nil && !lost {
						t.Errorf("flush %d: %v", i, err)
					}
				}
				l.must(q.Close())
			})
		})
	}
}

// one executes one request.
func one(q *Queue, r backend.Request) error {
	var rs [1]backend.Result
	for q.Submit([]backend.Request{r}); q.Poll(rs[:]) == 0; {
		time.Sleep(100 * time.Microsecond)
	}
	return rs[0].Err
}

// TestUnflushed: writes are unflushed until a flush that began afterwards has succeeded, also if the target does not
// report power losses of its machine.
func TestUnflushed(t *testing.T) {
	for _, known := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			l := volatileLab(t, 1)
			if side := l.sides[0]; !known {
				side.stop()
				side.state = nil
				side.start()
			}
			n := l.namespace(l.connect(l.config()))
			q, err := n.OpenQueue(4, nil)
			l.must(err)
			for i, step := range []struct {
				request   backend.Request
				unflushed bool
			}{
				{backend.Request{Op: backend.OpWriteZeroes, Length: 512, FUA: true}, false},
				{backend.Request{Op: backend.OpWriteZeroes, Length: 512}, true},
				{backend.Request{Op: backend.OpDeallocate, Length: 512}, true},
				{backend.Request{Op: backend.OpFlush}, false},
			} {
				l.must(one(q, step.request))
				if n.Unflushed() != step.unflushed {
					t.Errorf("step %d, known %t: unflushed is %t", i, known, !step.unflushed)
				}
			}
			_, err = n.WriteAt(make([]byte, 512), 0)
			l.must(err)
			if !n.Unflushed() {
				t.Error("what WriteAt has written is flushed")
			}
			l.must(n.Flush())
			if n.Unflushed() {
				t.Error("what Flush has flushed is not")
			}
			l.must(q.Close())
		})
	}
}

// TestWritesLostOf: which operations count, with each way to submit them.
func TestWritesLostOf(t *testing.T) {
	block := make([]byte, 512)
	for name, row := range map[string]struct {
		do   func(*Namespace, *Queue) error
		lost bool
	}{
		"a write": {func(_ *Namespace, q *Queue) error {
			return one(q, backend.Request{Op: backend.OpWrite, Buf: block, Length: 512})
		}, true},
		"force unit access": {func(_ *Namespace, q *Queue) error {
			return one(q, backend.Request{Op: backend.OpWrite, Buf: block, Length: 512, FUA: true})
		}, false},
		"a read": {func(_ *Namespace, q *Queue) error {
			return one(q, backend.Request{Op: backend.OpRead, Buf: block, Length: 512})
		}, false},
		"zeroes":                      {func(n *Namespace, _ *Queue) error { return n.WriteZeroes(0, 512, false) }, true},
		"deallocate, which is a hint": {func(n *Namespace, _ *Queue) error { return n.Deallocate(0, 512) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := volatileLab(t, 1)
				s := l.connect(l.config())
				n := l.namespace(s)
				q, err := n.OpenQueue(4, nil)
				l.must(err)
				l.must(row.do(n, q))
				l.sides[0].restart(true, true)
				l.await(s.Paths()[0], StateLost)
				if err := n.Flush(); errors.Is(err, ErrWritesLost) != row.lost || err != nil && !row.lost {
					t.Errorf("the flush: %v", err)
				}
				l.must(q.Close())
			})
		})
	}
}

// TestWritesLostWithFlushUnderWay: a flush that began before the power failure, and ended after it, reports the loss.
func TestWritesLostWithFlushUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := volatileLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		_, err := n.WriteAt(make([]byte, 512), 0)
		l.must(err)
		l.sever(l.sides[0], true)
		flushes := make(chan error, 2)
		for range cap(flushes) {
			go func() { flushes <- n.Flush() }() // ends when the target is back
		}
		time.Sleep(time.Millisecond)
		l.sides[0].restart(true, true)
		for range cap(flushes) {
			if err := <-flushes; !errors.Is(err, ErrWritesLost) {
				t.Errorf("a flush that waited for the target: %v", err)
			}
		}
		l.must(n.Flush())
	})
}

// TestWritesLostOfOneTarget: of two targets with one store, the machine of one restarts. Writes through it that were
// flushed through the other are durable; those that were not may be lost.
func TestWritesLostOfOneTarget(t *testing.T) {
	for _, flush := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			l := volatileLab(t, 2)
			s := l.connect(l.config())
			n := l.namespace(s)
			for range 4 { // by the first path, with which NUMA stays
				_, err := n.WriteAt(make([]byte, 512), 0)
				l.must(err)
			}
			k := l.sides[0].state.(*kept)
			k.killed = true
			l.sides[0].kill()
			l.await(s.Paths()[0], StateLost)
			if flush {
				l.must(n.Flush())
			}
			_, err := n.WriteAt(make([]byte, 512), 0) // by the other one
			l.must(err)
			k.killed, l.sides[0].boot = false, "second"
			l.sides[0].revive()
			l.await(s.Paths()[0], StateLive)
			if err := n.Flush(); errors.Is(err, ErrWritesLost) == flush {
				t.Errorf("flushed before: %v; now %v", flush, err)
			}
		})
	}
}

// TestWritesLostByAnotherPath: the path on which the host reconnects to the target need not be the one it has written
// on.
func TestWritesLostByAnotherPath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := volatileLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		_, err := n.WriteAt(make([]byte, 512), 0)
		l.must(err)
		s.Paths()[0].Delete()
		l.sides[0].restart(true, true)
		_, err = s.Add(t.Context(), l.path(l.sides[0]))
		l.must(err)
		if err := n.Flush(); !errors.Is(err, ErrWritesLost) {
			t.Errorf("the flush: %v", err)
		}
		l.must(n.Flush())
	})
}

// TestWritesLostWhileStateIsAway: a target whose state cannot be read at the start reports what happened to the writes
// when it can read it.
func TestWritesLostWhileStateIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := volatileLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		_, err := n.WriteAt(make([]byte, 512), 0)
		l.must(err)
		side := l.sides[0]
		k := side.state.(*kept)
		k.away, side.empty = errors.New("not mounted"), true
		side.restart(true, true)
		l.await(s.Paths()[0], StateLost)
		l.await(s.Paths()[0], StateLive)
		k.away = nil
		side.export()
		if err := n.Flush(); !errors.Is(err, ErrWritesLost) {
			t.Errorf("the flush: %v", err)
		}
		l.must(n.Flush())
	})
}

// TestWritesKeptOfTargetAway: a restart of one target's machine does not affect writes through another target to which
// no path is live then.
func TestWritesKeptOfTargetAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := volatileLab(t, 2)
		s := l.connect(l.config())
		n := l.namespace(s)
		k := l.sides[1].state.(*kept)
		k.killed = true
		l.sides[1].kill()
		l.await(s.Paths()[1], StateLost)
		_, err := n.WriteAt(make([]byte, 512), 0) // by the first
		l.must(err)
		l.sever(l.sides[0], true)
		l.await(s.Paths()[0], StateLost)
		k.killed, l.sides[1].boot = false, "second"
		l.sides[1].revive()
		l.await(s.Paths()[1], StateLive)
		l.sever(l.sides[0], false)
		l.await(s.Paths()[0], StateLive)
		l.must(n.Flush())
	})
}
