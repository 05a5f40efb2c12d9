package multipath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// promptly is how long a path takes to become live, or to handle an event, if it does not wait for another path.
const promptly = 250 * time.Millisecond

// secondStore returns a store for a second namespace of a lab.
func secondStore(t *testing.T) backend.Store {
	t.Helper()
	store, err := memory.New(memory.Config{Size: testSize, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TestIdentifyHangs: a path whose controller does not complete Identify does not delay another path that becomes live,
// opening a namespace, or changes meanwhile. When it completes, the path catches up.
func TestIdentifyHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		other := secondStore(t)
		l, store := resizableLab(t, 3, testSize/2)
		cfg := l.config()
		cfg.Policy, cfg.Paths = RoundRobin, cfg.Paths[:2]
		s := l.connect(cfg)
		n := l.namespace(s)
		stays, hangs := s.Paths()[0], s.Paths()[1]
		l.sides[1].kill()
		l.await(hangs, StateLost)
		l.deafen(l.sides[1], true)
		l.sides[1].revive()
		var second *Namespace
		for i := range 20 {
			time.Sleep(time.Second / 3) // hits another point of the other path's attempt each time
			var joins *Path
			d, err := took(func() (err error) { joins, err = s.Add(context.Background(), l.path(l.sides[2])); return err })
			l.must(err)
			wantBetween(t, "becoming live", d, 0, promptly)
			for range 4 {
				l.must(firstOf(writeBoth(t, n, 0)))
			}
			if joins.Status().Completed == 0 || hangs.Status().State == StateLive {
				t.Errorf("round %d: %d requests over the path that is live, the other is %v", i, joins.Status().Completed, hangs.Status().State)
			}
			size := int64(testSize/2 + (i+1)*4096)
			store.size.Store(size)
			for _, side := range l.sides {
				side.target.Revalidate()
			}
			time.Sleep(promptly)
			if got := n.Size(); got != size {
				t.Errorf("round %d: the size is %d, want %d", i, got, size)
			}
			joins.Delete()
			if i != 10 {
				continue
			}
			for _, side := range l.sides {
				_, err := side.sub.AddNamespace(target.NamespaceConfig{Store: other, NSID: 2, UUID: uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b77")})
				l.must(err)
			}
			d, err = took(func() (err error) { second, err = s.Namespace(context.Background(), 2); return err })
			if err != nil {
				t.Fatal(err)
			}
			wantBetween(t, "opening", d, 0, promptly)
		}
		l.deafen(l.sides[1], false)
		l.await(hangs, StateLive)
		l.sides[0].kill()
		l.await(stays, StateLost)
		l.must(firstOf(writeBoth(t, n, 0)))
		l.must(firstOf(writeBoth(t, second, 0)))
	})
}

// TestOpenHangs: a namespace is opened without a live path whose controller does not complete Identify, and that path
// is used once it does.
func TestOpenHangs(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost bool // the controller is lost because of it
	}{{"for a while", false}, {"for ever", true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 2)
				cfg := l.config()
				cfg.Policy = RoundRobin
				s := l.connect(cfg)
				for i, side := range l.sides {
					l.deafen(side, true)
					var n *Namespace
					d, err := took(func() (err error) { n, err = s.Namespace(context.Background(), 1); return err })
					if err != nil {
						t.Fatal(err)
					}
					wantBetween(t, "opening", d, othersTime, othersTime+promptly)
					l.must(firstOf(writeBoth(t, n, 0)))
					p := s.Paths()[i]
					if err := n.Err(); err != nil {
						t.Errorf("one path has the namespace, but %v", err)
					}
					if tt.lost {
						l.await(p, StateLost)
					}
					l.deafen(side, false)
					time.Sleep(20 * time.Second)
					before := p.Status()
					for range 4 {
						l.must(firstOf(writeBoth(t, n, 0)))
					}
					after := p.Status()
					if after.Completed == before.Completed || tt.lost != (after.Reconnects > 0) {
						t.Errorf("path %d had %d requests, now %d, and reconnected %d times", i, before.Completed, after.Completed, after.Reconnects)
					}
					l.must(n.Close())
				}
			})
		})
	}
}

func firstOf(a, b error) error { return errors.Join(a, b) }

// TestChangeDuringOpen: Identify data becomes out of date if the namespace changes before it is open, while the open
// waits for another controller.
func TestChangeDuringOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const larger = testSize/2 + 4096
		l, store := resizableLab(t, 2, testSize/2)
		s := l.connect(l.config())
		l.deafen(l.sides[1], true)
		time.AfterFunc(othersTime/2, func() {
			store.size.Store(larger)
			for _, side := range l.sides {
				side.target.Revalidate()
			}
		})
		n, err := s.Namespace(context.Background(), 1)
		l.must(err)
		time.Sleep(promptly)
		if n.Size() != larger {
			t.Errorf("the size is %d, want %d", n.Size(), larger)
		}
		l.must(firstOf(writeBoth(t, n, larger-512)))
		l.deafen(l.sides[1], false)
		time.Sleep(20 * time.Second)
		if err := n.Err(); err != nil || n.Size() != larger {
			t.Errorf("%d bytes, %v", n.Size(), err)
		}
		l.must(n.Close())
	})
}

// TestJustMade: a path without the namespace identifies it again while another path does not answer, so that a
// namespace is found that was created in between.
func TestJustMade(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		for _, side := range l.sides {
			side.stop()
			side.empty = true
			side.start()
		}
		s := l.connect(l.config())
		l.deafen(l.sides[1], true)
		time.AfterFunc(promptly, l.sides[0].export)
		var n *Namespace
		d, err := took(func() (err error) { n, err = s.Namespace(context.Background(), 1); return err })
		if err != nil {
			t.Fatalf("after %v: %v", d, err)
		}
		wantBetween(t, "opening", d, othersTime, 2*othersTime+promptly)
		l.must(n.Close())
	})
}

// TestIdentifyFailsBeforeWrite: a write that waits for a queue entry, while its path fails to identify the namespace,
// is sent on another path. The error of Identify does not become the error of the write.
func TestIdentifyFailsBeforeWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		slow := backendtest.NewFaulty(l.store)
		l.sides[0].stop()
		l.sides[0].store = slow
		l.sides[0].start()
		cfg := l.config()
		cfg.Paths[0].Options.QueueSize, cfg.Paths[0].Options.NrIOQueues = 2, 1 // one command at a time
		s := l.connect(cfg)
		n := l.namespace(s)
		fault := slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
		results := make(chan error, 2)
		for range cap(results) {
			go func() {
				_, err := n.WriteAt(make([]byte, 512), 0)
				results <- err
			}()
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.look(ctx, s.Paths()[0].session, n); !errors.Is(err, context.Canceled) {
			t.Errorf("looking: %v", err)
		}
		s.changed(s.Paths()[0], false)
		fault.Release()
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNothingIsSentWhileLooking: a write that waits for a queue entry is not sent while its path identifies the
// namespace, even if the queue has room then: the identifier may belong to another namespace already.
func TestNothingIsSentWhileLooking(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		slow := backendtest.NewFaulty(l.store)
		l.sides[0].stop()
		l.sides[0].store = slow
		l.sides[0].start()
		cfg := l.config()
		cfg.Paths[0].Options.QueueSize, cfg.Paths[0].Options.NrIOQueues = 2, 1 // one command at a time
		cfg.Paths[0].Options.KeepAliveTmo = time.Minute
		s := l.connect(cfg)
		n := l.namespace(s)
		hold := func(off int64) *backendtest.Fault {
			return slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Offset: off, Length: 512, Hold: backendtest.HoldRequest})
		}
		first, second := hold(0), hold(512)
		results := make(chan error, 2)
		write := func(off int64) {
			_, err := n.WriteAt(make([]byte, 512), off)
			results <- err
		}
		go write(0)
		time.Sleep(time.Second)
		go write(512)
		time.Sleep(time.Second)
		l.deafen(l.sides[0], true)
		looked := make(chan error, 1)
		go func() { looked <- s.look(t.Context(), s.Paths()[0].session, n) }()
		time.Sleep(drainTime + 200*time.Millisecond) // until Identify is sent
		first.Release()
		time.Sleep(200 * time.Millisecond)
		if second.Hits() > 0 {
			t.Error("a write was sent to what may be another namespace")
		}
		l.deafen(l.sides[0], false)
		second.Release()
		if err := <-looked; err != nil {
			t.Error(err)
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}
