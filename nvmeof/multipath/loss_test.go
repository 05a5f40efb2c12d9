package multipath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// took returns how long f takes, and its error.
func took(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

func wantBetween(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s took %v, want %v to %v", what, got, least, most)
	}
}

// TestCtrlLoss: a path that does not reconnect is given up, and its requests fail.
func TestCtrlLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		cfg := l.config()
		cfg.Paths[0].CtrlLossTmo = 20 * time.Second
		s := l.connect(cfg)
		n := l.namespace(s)
		l.sides[0].kill()
		time.Sleep(15 * time.Second)
		l.sides[0].revive() // in time: the time of the next loss is counted separately
		l.await(s.Paths()[0], StateLive)
		if err := n.Flush(); err != nil {
			t.Errorf("after its return: %v", err)
		}
		l.sides[0].kill()
		d, err := took(func() error { _, err := n.ReadAt(make([]byte, 512), 0); return err })
		wantBetween(t, "a read", d, 20*time.Second, 26*time.Second)
		var none *NoPathError
		if !errors.As(err, &none) || len(none.Paths) != 1 || none.Paths[0].State != StateDead || none.Paths[0].Err == nil {
			t.Errorf("%v", err)
		}
		if d, err := took(n.Flush); !errors.As(err, &none) || d > time.Second {
			t.Errorf("a request for a dead path: %v after %v", err, d)
		}
		p := s.Paths()[0]
		if st := p.Status(); st.State != StateDead || !st.Next.IsZero() || st.Attempts == 0 {
			t.Errorf("status %+v", st)
		}
		l.sides[0].revive()
		if _, err := s.Add(context.Background(), l.path(l.sides[0])); err != nil {
			t.Fatal(err)
		}
		if err := n.Flush(); err != nil {
			t.Errorf("over a path that was added: %v", err)
		}
		p.Delete()
		if len(s.Paths()) != 1 {
			t.Error("a deleted path is there")
		}
	})
}

// TestFastIOFail: requests fail before the path is given up, but a write does not while it may still be in the target.
func TestFastIOFail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		cfg := l.config()
		cfg.Paths[0].FastIOFailTmo = time.Second
		s := l.connect(cfg)
		n := l.namespace(s)
		q, err := n.OpenQueue(2, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.sides[0].kill()
		b := make([]byte, 1024)
		q.Submit([]backend.Request{
			{Tag: 0, Op: backend.OpRead, Length: 512, Buf: b[:512]}, {Tag: 1, Op: backend.OpWrite, Length: 512, Buf: b[512:]},
		})
		var at [2]time.Duration
		var errs [2]error
		start := time.Now()
		for left := 2; left > 0; time.Sleep(10 * time.Millisecond) {
			var rs [2]backend.Result
			for _, r := range rs[:q.Poll(rs[:])] {
				at[r.Tag], errs[r.Tag] = time.Since(start), r.Err
				left--
			}
		}
		var none *NoPathError
		if !errors.As(errs[0], &none) || !errors.As(errs[1], &none) {
			t.Errorf("%v; %v", errs[0], errs[1])
		}
		// The keep alive takes 2 to 3 s, and 3 of them are 6 s.
		wantBetween(t, "the read", at[0], 3*time.Second, 5*time.Second)
		wantBetween(t, "the write", at[1], 8*time.Second, 10*time.Second)
		if d, err := took(n.Flush); err == nil || d > time.Second {
			t.Errorf("a later request: %v after %v", err, d)
		}
		l.sides[0].revive()
		l.await(s.Paths()[0], StateLive)
		if err := n.Flush(); err != nil {
			t.Errorf("after its return: %v", err)
		}
		l.must(q.Close())
	})
}

// TestOldWrite: a write that hangs in a target that the host has lost is executed later. It must not undo a newer one,
// unless the user has chosen so.
func TestOldWrite(t *testing.T) {
	for _, tt := range []struct {
		kato, released time.Duration
		fenced         bool
	}{
		{2 * time.Second, 5 * time.Second, true}, // the fence ends after 8 s
		{2 * time.Second, 5 * time.Second, false},
		{300 * time.Millisecond, 2 * time.Second, true}, // which the target takes for 1 s: 3.4 s
	} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, 2)
			slow := backendtest.NewFaulty(l.store)
			l.sides[0].stop()
			l.sides[0].store = slow
			l.sides[0].start()
			cfg := l.config()
			cfg.Paths[0].Options.KeepAliveTmo = tt.kato
			if !tt.fenced {
				cfg.Paths[0].ReplayDelay = -1
			}
			n := l.namespace(l.connect(cfg))
			fault := slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
			time.AfterFunc(tt.released, fault.Release)
			time.AfterFunc(100*time.Millisecond, func() { l.sever(l.sides[0], true) })
			old, newer, got := make([]byte, 512), make([]byte, 512), make([]byte, 512)
			fill(old, 0, 1)
			fill(newer, 0, 2)
			for _, b := range [][]byte{old, newer} {
				if _, err := n.WriteAt(b, 0); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Second)
			if _, err := n.ReadAt(got, 0); err != nil {
				t.Fatal(err)
			}
			if err := check(got, 0, 2); (err == nil) != tt.fenced {
				t.Errorf("%+v: %v", tt, err)
			}
		})
	}
}

// TestOnce: what must not be repeated is not repeated if its outcome is unknown.
func TestOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		n := l.namespace(l.connect(l.config()))
		calls := 0
		use := func(safety Safety) error {
			calls = 0
			return n.Use(context.Background(), safety, func(ns *host.Namespace) error {
				if calls++; calls == 1 {
					for i, p := range n.sub.Paths() {
						if p.inFlight.Load() > 0 {
							l.sever(l.sides[i], true)
							time.AfterFunc(20*time.Second, func() { l.sever(l.sides[i], false) })
						}
					}
				}
				return ns.Flush()
			})
		}
		var unknown *UnknownError
		if err := use(Once); !errors.As(err, &unknown) || calls != 1 || !unknown.Until.After(time.Now()) {
			t.Errorf("once: %v after %d calls", err, calls)
		}
		if err := use(Harmless); err != nil || calls != 2 {
			t.Errorf("harmless: %v after %d calls", err, calls)
		}
		time.Sleep(time.Minute)
		if d, err := took(func() error { return use(Repeatable) }); err != nil || calls != 2 || d < 8*time.Second {
			t.Errorf("repeatable: %v after %d calls and %v", err, calls, d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := n.Use(ctx, Once, func(*host.Namespace) error { return &host.UnsentError{Err: errors.New("lost")} })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what was not sent: %v", err)
		}
	})
}

// TestUseLost: when a context ends and the path is lost with a command of the call, the outcome is unknown, or the call
// ends when the target has ended the command.
func TestUseLost(t *testing.T) {
	block := make([]byte, 512)
	for _, tt := range []struct {
		name   string
		safety Safety
		fn     func(context.Context, *host.Namespace) error
	}{
		{"compare and write", Once, func(ctx context.Context, ns *host.Namespace) error {
			return ns.CompareAndWrite(ctx, 0, block, block)
		}},
		{"write once", Once, func(ctx context.Context, ns *host.Namespace) error {
			_, err := ns.WriteAtContext(ctx, block, 0)
			return err
		}},
		{"write", Repeatable, func(ctx context.Context, ns *host.Namespace) error {
			_, err := ns.WriteAtContext(ctx, block, 0)
			return err
		}},
		{"execute", Repeatable, func(ctx context.Context, ns *host.Namespace) error {
			_, err := ns.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, block)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 1)
				n := l.namespace(l.connect(l.config()))
				fence := n.sub.Paths()[0].session.fence
				l.sever(l.sides[0], true)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				d, err := took(func() error {
					return n.Use(ctx, tt.safety, func(ns *host.Namespace) error { return tt.fn(ctx, ns) })
				})
				var unknown *UnknownError
				if tt.safety == Once {
					if !errors.As(err, &unknown) {
						t.Errorf("%v", err)
					}
					return
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				wantBetween(t, "the call", d, time.Second+fence, 5*time.Second+fence)
			})
		})
	}
}

// TestCloseWhileWaiting: a request that waits for a path fails when the subsystem is closed.
func TestCloseWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n := l.namespace(s)
		wake := make(chan struct{}, 8)
		q, err := n.OpenQueue(1, func() { wake <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		l.sides[0].kill()
		l.await(s.Paths()[0], StateLost)
		q.Submit([]backend.Request{{Op: backend.OpFlush}})
		time.AfterFunc(5*time.Second, func() { l.must(s.Close()) })
		if err := n.Flush(); !errors.Is(err, ErrClosed) {
			t.Errorf("a flush that waited: %v", err)
		}
		var rs [1]backend.Result
		for q.Poll(rs[:]) == 0 {
			<-wake
		}
		if !errors.Is(rs[0].Err, ErrClosed) {
			t.Errorf("a request of a queue: %v", rs[0].Err)
		}
		if n.Close() == nil {
			t.Error("the namespace closes with a queue open")
		}
		l.must(q.Close())
		l.must(n.Close())
		if _, err := s.Namespace(context.Background(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("a namespace of a closed subsystem: %v", err)
		}
		if _, err := s.Namespaces(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("the namespaces of a closed subsystem: %v", err)
		}
		if _, err := n.OpenQueue(1, nil); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("a queue of a closed namespace: %v", err)
		}
	})
}
