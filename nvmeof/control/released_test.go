package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A dumb store does not return its size until it may.
type dumb struct {
	backend.Store
	asked chan<- struct{}
	may   <-chan struct{}
}

func (s dumb) Refresh() (bool, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-s.may
	return false, nil
}

// inUse reports whether the file of a namespace is open.
func (g *gatewayRig) inUse(name string) bool {
	g.t.Helper()
	s, _, err := OpenStore(&config.Namespace{File: &config.File{Path: config.Path(filepath.Join(g.dir, name))}}, nil)
	if err == nil {
		g.must(s.Close())
	} else if !strings.Contains(err.Error(), "in use") {
		g.t.Errorf("%s: %v", name, err)
	}
	return err != nil
}

// TestReleasedBeside: a store that hangs does not keep the files of other namespaces of its group open.
func TestReleasedBeside(t *testing.T) {
	t.Parallel()
	asked, may := make(chan struct{}, 1), make(chan struct{})
	g := newGatewayRig(t, sharedFiles(t), func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			if err == nil && n.NSID == 1 {
				s = dumb{s, asked, may}
			}
			return s, notes, err
		}
	})
	g.set(strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1))
	ctx := t.Context()
	g.must(ServeGroup(ctx, g.Manager, 1, 1))
	go g.target.Revalidate() // ends when the store says how large it is
	<-asked
	g.must(g.gateway.Stop(1))
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var hung *target.DrainError
	if err := ReleaseGroup(soon, g.Manager, 1); !errors.As(err, &hung) || len(hung.Unfinished) != 1 || filepath.Base(hung.Unfinished[0]) != "one" {
		t.Errorf("given back with %v", err)
	}
	if g.inUse("three") || !g.inUse("one") {
		t.Error("what does not hang is open, or what hangs is not")
	}
	close(may)
	for end := time.Now().Add(10 * time.Second); g.inUse("one"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what has hung is not closed")
		}
	}
	g.must(ReleaseGroup(ctx, g.Manager, 1))
	g.must(ServeGroup(ctx, g.Manager, 1, 2))
	g.wantOpen(1, 3)
}

// A slowToFlush store does not end a flush while it is held.
type slowToFlush struct {
	backend.Store
	held *atomic.Bool
}

func (s slowToFlush) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return &flushLate{Queue: q, held: s.held, notify: notify}, err
}

type flushLate struct {
	backend.Queue
	held   *atomic.Bool
	notify func()
	kept   []backend.Request
}

func (q *flushLate) Submit(rs []backend.Request) int {
	if rs[0].Op != backend.OpFlush || !q.held.Load() {
		return q.Queue.Submit(rs[:1])
	}
	q.kept = append(q.kept, rs[0])
	time.AfterFunc(10*time.Millisecond, q.notify)
	return 1
}

func (q *flushLate) Poll(rs []backend.Result) int {
	switch {
	case len(q.kept) == 0:
	case q.held.Load():
		time.AfterFunc(10*time.Millisecond, q.notify)
	default:
		if q.kept = q.kept[q.Queue.Submit(q.kept):]; len(q.kept) > 0 {
			time.AfterFunc(10*time.Millisecond, q.notify)
		}
	}
	return q.Queue.Poll(rs)
}

// ThreadBound implements [backend.ThreadBound]: io_uring delivers completions on its own thread only.
func (q *flushLate) ThreadBound() bool {
	b, ok := q.Queue.(backend.ThreadBound)
	return ok && b.ThreadBound()
}

func (q *flushLate) Idle() bool { return len(q.kept) == 0 && q.Queue.Idle() }

// flushesHeld holds the flushes of the first namespace while held is set.
func flushesHeld(held *atomic.Bool) func(*Config) {
	return func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			if err == nil && n.NSID == 1 {
				s = slowToFlush{s, held}
			}
			return s, notes, err
		}
	}
}

// TestDrainedBeside: a flush that hangs does not keep the files of other namespaces of its group open.
func TestDrainedBeside(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	g := newGatewayRig(t, sharedFiles(t), flushesHeld(&held))
	g.set(strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1))
	g.must(ServeGroup(t.Context(), g.Manager, 1, 1))
	held.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drained := make(chan error)
	go func() { drained <- DrainGroup(ctx, g.Manager, 1) }()
	for end := time.Now().Add(20 * time.Second); g.inUse("three"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what does not hang is open")
		}
	}
	if !g.inUse("one") {
		t.Error("what is not flushed is closed")
	}
	cancel()
	var hung *target.DrainError
	if err := <-drained; !errors.As(err, &hung) || len(hung.Unfinished) != 1 || filepath.Base(hung.Unfinished[0]) != "one" {
		t.Errorf("drained with %v", err)
	}
	held.Store(false)
	g.must(DrainGroup(t.Context(), g.Manager, 1))
	if g.inUse("one") {
		t.Error("what was drained is open")
	}
	g.must(ServeGroup(t.Context(), g.Manager, 1, 2))
	g.wantOpen(1, 3)
}

// TestDrainedAsItCame: a store that is opened while its group is given back does not stay open here, since the next
// gateway waits for it.
func TestDrainedAsItCame(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	g := newGatewayRig(t, sharedFiles(t), flushesHeld(&held))
	three := filepath.Join(g.dir, "three")
	g.must(os.Rename(three, three+".later"))
	g.set(strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1))
	g.must(ServeGroup(t.Context(), g.Manager, 1, 1))
	held.Store(true)
	drained := make(chan error)
	go func() { drained <- DrainGroup(t.Context(), g.Manager, 1) }()
	for g.gateway.Serves(1) {
		time.Sleep(time.Millisecond)
	}
	g.mu.Lock()
	g.must(os.Rename(three+".later", three))
	if at := (namespaceKey{"a", 3}); g.waiting[at] != nil {
		g.try(at)
	}
	g.mu.Unlock()
	time.Sleep(50 * time.Millisecond) // the flush of the drain is held, like the earlier one
	held.Store(false)
	g.must(<-drained)
	if g.wantOpen(); g.inUse("one") || g.inUse("three") {
		t.Errorf("what was drained is open: one %v, three %v", g.inUse("one"), g.inUse("three"))
	}
}

// TestReleasedMeanwhile: if a namespace changes whose store hangs while its group is given back, the store is
// closed when the command has ended, and not before.
func TestReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	const one = "        file: {path: DIR/one, size: 1MiB}\n"
	for name, to := range map[string]string{"removed": "", "read-only": one + "        read-only: true\n", "in another group": one + "        ana-group: 3\n"} {
		t.Run(name, func(t *testing.T) {
			asked, may, closing, now := make(chan struct{}, 1), make(chan struct{}), make(chan config.Path, 1), make(chan struct{})
			close(now)
			g := newGatewayRig(t, sharedFiles(t), func(c *Config) {
				c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
					s, notes, err := OpenStore(n, pool)
					if err == nil && n.NSID == 1 {
						s = dumb{slowToClose{s, closing, now, n.Path()}, asked, may}
					}
					return s, notes, err
				}
			})
			text := strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1)
			g.set(text)
			g.leaveTimeout = 10 * time.Millisecond
			g.must(ServeGroup(t.Context(), g.Manager, 1, 1))
			go g.target.Revalidate() // ends when the store says how large it is
			<-asked
			g.must(g.gateway.Stop(1))
			soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var hung *target.DrainError
			if err := ReleaseGroup(soon, g.Manager, 1); !errors.As(err, &hung) {
				t.Errorf("given back with %v", err)
			}
			old := "      - nsid: 1\n" + one
			if to != "" {
				to = "      - nsid: 1\n" + to
			}
			g.set(strings.Replace(text, old, to, 1))
			if len(closing) > 0 {
				t.Error("what hangs is closed")
			}
			close(may)
			<-closing
			for end := time.Now().Add(10 * time.Second); g.inUse("one"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what has hung is not closed")
				}
			}
		})
	}
}

// TestReleasedAgain: a group is given back a second time while a store has not finished the first.
func TestReleasedAgain(t *testing.T) {
	t.Parallel()
	asked, may := make(chan struct{}, 1), make(chan struct{})
	g := newGatewayRig(t, sharedFiles(t), func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			if err == nil && n.NSID == 2 {
				s = dumb{s, asked, may}
			}
			return s, notes, err
		}
	})
	g.set(strings.Replace(shared, "subsystems:", "listeners: [{id: 1, address: \"ADDR:4420\"}]\nsubsystems:", 1))
	ctx := t.Context()
	g.must(ServeGroup(ctx, g.Manager, 2, 1))
	go g.target.Revalidate() // ends when the store says how large it is
	<-asked
	release := func() error {
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return ReleaseGroup(soon, g.Manager, 2)
	}
	g.must(g.gateway.Stop(2))
	var hung *target.DrainError
	if err := release(); !errors.As(err, &hung) || hung.Ended == nil {
		t.Fatalf("given back with %v", err)
	}
	if err := release(); !errors.As(err, &hung) || !strings.Contains(err.Error(), "two") {
		t.Errorf("it is given back again, with %v", err)
	}
	close(may)
	g.must(ReleaseGroup(ctx, g.Manager, 2))
	g.must(ServeGroup(ctx, g.Manager, 2, 2))
	g.wantOpen(2)
	if why := g.why(2); why != "" {
		t.Errorf("the namespace waits for %q", why)
	}
}
