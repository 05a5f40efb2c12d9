package multipath

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A resizable store has a settable part of another one.
type resizable struct {
	backend.Store
	size atomic.Int64
}

func (r *resizable) Info() backend.Info {
	info := r.Store.Info()
	info.Size = r.size.Load()
	return info
}

// resizableLab returns a lab whose targets have a store of that size.
func resizableLab(t *testing.T, targets int, size int64) (*lab, *resizable) {
	t.Helper()
	l := newLab(t, targets)
	r := &resizable{Store: l.store}
	r.size.Store(size)
	for _, s := range l.sides {
		s.stop()
		s.store = r
		s.start()
	}
	return l, r
}

// writeBoth writes a block with a queue and with a blocking call.
func writeBoth(t *testing.T, n *Namespace, off int64) (blocking, queued error) {
	t.Helper()
	_, blocking = n.WriteAt(make([]byte, n.BlockSize()), off)
	q, err := n.OpenQueue(1, nil)
	if err != nil {
		return blocking, err
	}
	defer q.Close()
	q.Submit([]backend.Request{{Op: backend.OpWrite, Offset: off, Length: int64(n.BlockSize()), Buf: make([]byte, n.BlockSize())}})
	var rs [1]backend.Result
	for q.Poll(rs[:]) == 0 {
		if err := q.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return blocking, rs[0].Err
}

// soon waits until a condition is true.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

// TestResized: a namespace follows its size, and is no larger than on any path.
func TestResized(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, store := resizableLab(t, 2, testSize/2)
		var reported atomic.Int32
		cfg := l.config()
		cfg.NamespaceEvent = func(n *Namespace) {
			if n != nil {
				reported.Add(1)
			}
		}
		n := l.namespace(l.connect(cfg))
		check := func(size int64) {
			t.Helper()
			soon(t, "the size", func() bool { return n.Size() == size && n.Info().Size == size })
			if a, b := writeBoth(t, n, size-512); a != nil || b != nil {
				t.Errorf("within the end: %v, %v", a, b)
			}
			if a, b := writeBoth(t, n, size); !errors.Is(a, host.ErrOutOfRange) || !errors.Is(b, backend.ErrOutOfRange) {
				t.Errorf("beyond the end: %v, %v", a, b)
			}
		}
		check(testSize / 2)
		store.size.Store(testSize)
		l.sides[0].target.Revalidate()
		time.Sleep(100 * time.Millisecond) // targets look by themselves each second
		check(testSize / 2)                // the other path does not know
		l.sides[1].target.Revalidate()
		check(testSize)
		store.size.Store(testSize / 4)
		l.sides[1].target.Revalidate()
		check(testSize / 4)
		l.sides[0].target.Revalidate()
		time.Sleep(100 * time.Millisecond)
		if got := reported.Load(); got != 2 {
			t.Errorf("called %d times, want 2", got)
		}
		if changed, err := n.Refresh(); changed || err != nil {
			t.Errorf("Refresh: %v, %v", changed, err)
		}
	})
}

// TestResizedWhileLost: a path that reconnects with another size is used if no other path is live.
func TestResizedWhileLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, store := resizableLab(t, 1, testSize)
		s := l.connect(l.config())
		n := l.namespace(s)
		l.sides[0].kill()
		l.await(s.Paths()[0], StateLost)
		store.size.Store(testSize / 2)
		l.sides[0].revive()
		l.await(s.Paths()[0], StateLive)
		soon(t, "the size", func() bool { return n.Size() == testSize/2 })
		if a, b := writeBoth(t, n, 0); a != nil || b != nil {
			t.Errorf("%v, %v", a, b)
		}
	})
}

// TestRemoved: if one path does not have the namespace, requests use the other; if neither has it, they fail at once
// with ErrRemoved. The namespace can come back, but cannot be replaced by another one.
func TestRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		var others atomic.Int32
		cfg := l.config()
		cfg.NamespaceEvent = func(n *Namespace) {
			if n == nil {
				others.Add(1)
			}
		}
		n := l.namespace(l.connect(cfg))
		l.must(l.sides[0].sub.RemoveNamespace(1))
		for range 20 { // before the host has noticed, and after
			if a, b := writeBoth(t, n, 0); a != nil || b != nil {
				t.Errorf("with one path left: %v, %v", a, b)
			}
			time.Sleep(5 * time.Millisecond)
		}
		l.must(l.sides[1].sub.RemoveNamespace(1))
		a, b := writeBoth(t, n, 0)
		var none *NoPathError
		if !errors.Is(a, host.ErrRemoved) || !errors.Is(b, host.ErrRemoved) || !errors.As(a, &none) || !n.Removed() {
			t.Errorf("removed: %v, %v, %v", a, b, n.Removed())
		}
		l.sides[0].uuid = uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b02")
		l.sides[0].export()
		time.Sleep(time.Second)
		if a, b := writeBoth(t, n, 0); a == nil || b == nil {
			t.Error("another namespace stands in for the one that was removed")
		}
		l.sides[1].export()
		soon(t, "it comes back", func() bool { return !n.Removed() })
		if a, b := writeBoth(t, n, 0); a != nil || b != nil {
			t.Errorf("back: %v, %v", a, b)
		}
		if others.Load() == 0 {
			t.Error("no event announced the list")
		}
	})
}

// TestReplacedWhileLost: if a target restarts with another namespace under the same identifier, the error says so, and
// no request is sent there. Once the old namespace is back, requests continue.
func TestReplacedWhileLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		var reported atomic.Int32
		cfg := l.config()
		cfg.NamespaceEvent = func(n *Namespace) {
			if n != nil {
				reported.Add(1)
			}
		}
		s := l.connect(cfg)
		n := l.namespace(s)
		restart := func(id uuid.UUID) {
			l.sides[0].kill()
			l.await(s.Paths()[0], StateLost)
			l.sides[0].uuid = id
			l.sides[0].revive()
			l.await(s.Paths()[0], StateLive)
		}
		other := uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b99")
		restart(other)
		want := "is a different one: its identifier is now UUID " + other.String() + ", and was UUID " + testUUID.String()
		a, b := writeBoth(t, n, 0)
		for _, err := range []error{a, b, n.Err()} {
			if !errors.Is(err, host.ErrRemoved) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if !n.Removed() || reported.Load() != 1 {
			t.Errorf("removed: %v, called %d times", n.Removed(), reported.Load())
		}
		restart(testUUID)
		if a, b := writeBoth(t, n, 0); a != nil || b != nil || n.Removed() || n.Err() != nil {
			t.Errorf("back: %v, %v, %v, %v", a, b, n.Removed(), n.Err())
		}
	})
}

// TestUnseen: requests wait while a controller does not identify a namespace, and continue when it has.
func TestUnseen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		load := startLoad(t, n)
		load.progress()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.look(ctx, s.live()[0], n); !errors.Is(err, context.Canceled) {
			t.Errorf("looking: %v", err)
		}
		s.changed(s.Paths()[0], false)
		if err := n.Err(); err == nil || n.Removed() {
			t.Errorf("not seen: %v, removed: %v", err, n.Removed())
		}
		was := s.Paths()[0].Status().Completed
		time.Sleep(time.Minute)
		if now := s.Paths()[0].Status().Completed; now != was {
			t.Errorf("%d requests were sent", now-was)
		}
		s.Paths()[0].readANASoon()
		load.progress()
		load.stop()
		l.must(n.Err())
	})
}

// TestHeld: while a path identifies a namespace, no request is in flight on any queue, and no request is lost.
func TestHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		cfg := l.config()
		cfg.Policy = RoundRobin
		s := l.connect(cfg)
		n := l.namespace(s)
		load := startLoad(t, n)
		for range 20 {
			a := s.attachment(s.live()[0], n)
			release := a.hold(t.Context())
			for range 100 {
				if f := a.inFlight.Load(); f != 0 {
					t.Errorf("%d requests are on their way", f)
				}
				time.Sleep(20 * time.Microsecond)
			}
			release()
			n.wake()
			load.progress()
		}
		load.stop()
		if slow := time.Duration(load.slow.Load()); slow > time.Second {
			t.Errorf("a request took %v", slow)
		}
	})
}

// TestReplacedUnderLoad: of the writes in flight while another namespace takes the place of theirs, none reaches that
// one.
func TestReplacedUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var others []*memory.Store
		for range 5 {
			other, err := memory.New(memory.Config{Size: testSize, BlockSize: 512})
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, other)
			t.Cleanup(func() { // after the lab
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		l := newLab(t, 1)
		s := l.connect(l.config())
		for round, other := range others {
			n := l.namespace(s)
			var writers sync.WaitGroup
			for range 4 {
				writers.Go(func() { // ends when the namespace has gone
					for off := int64(0); ; off = (off + 512) % testSize {
						if _, err := n.WriteAt(bytes.Repeat([]byte{7}, 512), off); err != nil {
							if !errors.Is(err, host.ErrRemoved) {
								t.Errorf("round %d: %v", round, err)
							}
							return
						}
					}
				})
			}
			writers.Go(func() { writeUntilRemoved(t, n) })
			time.Sleep(20 * time.Millisecond)
			l.must(l.sides[0].sub.RemoveNamespace(1))
			l.sides[0].store = other
			l.sides[0].uuid = uuid.New()
			l.sides[0].export()
			writers.Wait()
			time.Sleep(5 * time.Second) // until the path has looked
			l.must(n.Close())
			n, b := l.namespace(s), make([]byte, testSize)
			if _, err := n.ReadAt(b, 0); err != nil || bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
				t.Errorf("round %d: the other namespace was written, or %v", round, err)
			}
			l.must(n.Close())
		}
	})
}

// writeUntilRemoved writes with a queue, several requests at a time.
func writeUntilRemoved(t *testing.T, n *Namespace) {
	q, err := n.OpenQueue(8, nil)
	if err != nil {
		return // it has gone
	}
	defer q.Close()
	var rs [8]backend.Result
	for i := uint64(0); ; {
		for q.Submit([]backend.Request{{Tag: i, Op: backend.OpWrite, Offset: int64(i) * 512 % testSize, Length: 512, Buf: bytes.Repeat([]byte{9}, 512)}}) == 1 {
			i++
		}
		for _, r := range rs[:q.Poll(rs[:])] {
			if r.Err != nil {
				if !errors.Is(r.Err, host.ErrRemoved) {
					t.Errorf("request %d: %v", r.Tag, r.Err)
				}
				return
			}
		}
		if err := q.Wait(); err != nil {
			t.Error(err)
		}
	}
}
