package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// A target records its calls.
type target struct {
	name   string
	openIn time.Duration // time that it takes to open the storage, and a group

	mu     sync.Mutex
	log    []string
	serves map[group.ID]uint64
	opens  int
	fails  error
	hangs  bool          // drains do not end
	deaf   time.Duration // time before the opening of a group checks its context
	until  time.Duration
}

func (t *target) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

func (t *target) has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(strings.Join(t.log, "\n"), text)
}

func (t *target) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.serves)
}

func (t *target) opened() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opens
}

func (t *target) Open(context.Context, group.Incarnation) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opens++; t.fails != nil {
		return nil, t.fails
	}
	return []string{fmt.Sprintf("client %d of %s", t.opens, t.name)}, nil
}

func (t *target) Close() {
	t.note("close")
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.serves)
}

func (t *target) Serve(ctx context.Context, id group.ID, epoch uint64, b group.Backend) error {
	t.mu.Lock()
	deaf := t.deaf
	t.mu.Unlock()
	time.Sleep(deaf)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t.openIn):
	}
	t.note("serve %d in %d, %s", id, epoch, b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serves[id] = epoch
	return nil
}

func (t *target) Drain(ctx context.Context, id group.ID, epoch uint64) error {
	t.note("drain %d in %d", id, epoch)
	if t.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(5 * time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.serves, id)
	return nil
}

func (t *target) Stop(id group.ID, epoch uint64) {
	t.note("stop %d in %d", id, epoch)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.serves, id)
}

func (t *target) Extend(until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
}

func (t *target) Fence(_ context.Context, f group.Fence) error {
	time.Sleep(20 * time.Millisecond)
	t.note("fence %s by %s", f.Name, strings.Join(f.Storage, ", "))
	return nil
}

func (t *target) Loads() map[group.ID]uint64 { return nil }
func (t *target) Sizes() map[group.ID]int64  { return nil }

// A store checks that nothing of a runner waits behind what hosts ask of the store.
type store struct {
	state.Store
	t *testing.T
}

func (s store) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if !t.Urgent {
		s.t.Errorf("a transaction that is not urgent: %v", t)
	}
	return s.Store.Txn(ctx, t)
}

// A world is a store with gateways.
type world struct {
	t      *testing.T
	shared *simulated.Shared
	begun  time.Time
	groups []group.Group
}

func newWorld(t *testing.T, backends ...group.Backend) *world {
	w := &world{t: t, shared: simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))), begun: time.Now()}
	for i, b := range backends {
		w.groups = append(w.groups, group.Group{ID: group.ID(i + 1), Backend: b})
	}
	return w
}

func (w *world) start(name string, change ...func(*Config, *target)) (*Runner, *target, *simulated.Conn) {
	w.t.Helper()
	conn := w.shared.Open(time.Second)
	tgt := &target{name: name, serves: map[group.ID]uint64{}, openIn: 10 * time.Millisecond}
	c := Config{Gateway: group.Config{Name: name, DrainTimeout: 5 * time.Second}, Groups: w.groups, Store: store{conn, w.t}, Target: tgt,
		Clock: func() time.Duration { return time.Hour + time.Since(w.begun) }}
	for _, f := range change {
		f(&c, tgt)
	}
	r, err := Start(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, tgt, conn
}

func (w *world) until(what string, limit time.Duration, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not after %v: %s", limit, what)
		}
	}
}

// TestTakeover: two gateways share the groups; one that ends at once is fenced, one that leaves gives back its groups.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Fenced, group.Fenced, group.Lease)
		changed := 0
		a, ta, ca := w.start("a", func(c *Config, _ *target) { c.Changed = func(group.Status) { changed++ } })
		w.until("a serves all", 5*time.Second, func() bool { return ta.count() == 3 })
		b, tb, cb := w.start("b")
		w.until("b has its share", time.Minute, func() bool { return tb.count() == 1 && ta.count() == 2 })
		s, err := a.Status(t.Context())
		if err != nil || len(s.Gateways) != 2 || changed == 0 || ta.until == 0 {
			t.Error(s, err, changed, ta.until)
		}
		id := s.Groups[0].Group.ID
		for _, g := range s.Groups {
			if g.Owner.Owner == "a" {
				id = g.Group.ID
			}
		}
		if h, ok := a.Hold(id); !ok || len(h.Guard) != 1 || h.Session == "" {
			t.Error("it does not hold the group", h)
		}
		a.Close()
		ca.Close()
		w.until("b has all", 20*time.Second, func() bool { return tb.count() == 3 })
		if !tb.has("fence a by client 1 of a") {
			t.Error("b did not fence")
		}
		c, tc, cc := w.start("c")
		w.until("c has its share", time.Minute, func() bool { return tc.count() == 1 })
		if err := b.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		w.until("c has all", time.Second, func() bool { return tc.count() == 3 })
		if tc.has("fence b") {
			t.Error("b is fenced, and has left")
		}
		if _, err := b.Status(t.Context()); err != ErrClosed {
			t.Error(err)
		}
		for _, r := range []*Runner{b, c} {
			r.Close()
		}
		cb.Close()
		cc.Close()
	})
}

// TestCommands: an administrator moves a group, and fails a gateway, which returns.
func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Fenced, group.Fenced)
		a, ta, ca := w.start("a", func(c *Config, tgt *target) {
			c.Alarm = func(m group.Alarm) { tgt.note("alarm %s: %s", m.Kind, m.Text) }
		})
		w.until("a serves all", 5*time.Second, func() bool { return ta.count() == 2 })
		b, tb, cb := w.start("b", func(c *Config, tgt *target) { tgt.fails = errors.New("no monitor answers") })
		time.Sleep(10 * time.Second)
		if tb.count() > 0 {
			t.Error("b serves without a storage")
		}
		tb.mu.Lock()
		tb.fails = nil
		tb.mu.Unlock()
		w.until("both serve one", time.Minute, func() bool { return ta.count() == 1 && tb.count() == 1 })
		if err := a.Command(t.Context(), group.Command{Kind: group.DrainGateway, Gateway: "b"}); err != nil {
			t.Error(err)
		}
		w.until("a serves all", time.Second, func() bool { return ta.count() == 2 })
		if err := a.Command(t.Context(), group.Command{Kind: group.MoveGroup, Gateway: "x"}); err == nil {
			t.Error("there is no x")
		}
		if err := b.Command(t.Context(), group.Command{Kind: group.FailGateway, Gateway: "a"}); err != nil {
			t.Error(err)
		}
		w.until("a is back", 10*time.Second, func() bool { return ta.opened() == 2 && ta.count() == 2 })
		if !ta.has("stop 1") || !ta.has("close") || !ta.has("fence a by client 1 of a") {
			t.Error("a was not stopped, closed and fenced")
		}
		a.Blocklisted("an incarnation before")
		a.Blocklisted(incarnation(t, a, "a"))
		w.until("a is back again", 10*time.Second, func() bool { return ta.opened() == 3 && ta.count() == 2 })
		if !ta.has("alarm fenced: another gateway has fenced") || !ta.has("alarm fenced: the storage refused") {
			t.Error("nobody is told why")
		}
		for _, r := range []*Runner{a, b} {
			r.Close()
		}
		ca.Close()
		cb.Close()
	})
}

// incarnation returns a gateway's incarnation, as the gateway sees it.
func incarnation(t *testing.T, r *Runner, name string) group.Incarnation {
	t.Helper()
	s, err := r.Status(t.Context())
	for _, g := range s.Gateways {
		if g.Member.Name == name {
			return g.Member.Incarnation
		}
	}
	t.Fatal("it does not see itself", err)
	return ""
}

// TestDrainHangs: the context of a drain ends when the engine continues without it.
func TestDrainHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Fenced)
		a, ta, ca := w.start("a", func(c *Config, tgt *target) {
			tgt.hangs = true
			c.Alarm = func(m group.Alarm) { tgt.note("alarm %s", m.Kind) }
		})
		w.until("a serves", 5*time.Second, func() bool { return ta.count() == 1 })
		b, tb, cb := w.start("b")
		time.Sleep(time.Second)
		a.Stuck(true)
		a.Stuck(false)
		a.Gone("x")
		a.Storage(incarnation(t, a, "a"), []string{"client 1 of a"})
		a.Configure(w.groups)
		if err := a.Command(t.Context(), group.Command{Kind: group.MoveGroup, Group: 1, Gateway: "b"}); err != nil {
			t.Error(err)
		}
		w.until("b serves", 10*time.Second, func() bool { return tb.count() == 1 })
		if !tb.has("fence a") || !ta.has("alarm drain-failed") {
			t.Error("no fence, or no alarm")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.shared.Do(func(s *simulated.Store, _ time.Time) { s.SetDown(true) })
		if err := b.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := b.Command(ctx, group.Command{Kind: group.DrainGateway, Gateway: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, r := range []*Runner{a, b} {
			r.Close()
		}
		ca.Close()
		cb.Close()
	})
}

// TestOpeningOutlivesLease: a group whose lease has ended while it was being opened is opened again, and the earlier
// time does not end later attempts.
func TestOpeningOutlivesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Lease)
		a, ta, ca := w.start("a", func(_ *Config, tgt *target) { tgt.deaf = 20 * time.Second })
		time.Sleep(5 * time.Second) // it is being opened
		w.shared.Do(func(s *simulated.Store, _ time.Time) { s.SetDown(true) })
		time.Sleep(10 * time.Second) // the lease has ended
		ta.mu.Lock()
		ta.deaf = time.Second // longer than the engine waits before it asks again
		ta.mu.Unlock()
		w.shared.Do(func(s *simulated.Store, _ time.Time) { s.SetDown(false) })
		w.until("the group is served", 10*time.Second, func() bool { return ta.count() == 1 })
		a.Close()
		ca.Close()
	})
}

func TestConfig(t *testing.T) {
	if _, err := Start(Config{}); err == nil {
		t.Error("no store")
	}
	if _, err := Start(Config{Store: &simulated.Conn{}, Target: &target{}}); err == nil {
		t.Error("no name")
	}
}
