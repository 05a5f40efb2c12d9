package control

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A holder opens memory in place of files, and can hold the completions of commands.
type holder struct {
	holds  atomic.Bool
	opened atomic.Int32

	mu       sync.Mutex
	notifies []func()
}

func (h *holder) open(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
	if n.File == nil {
		return OpenStore(n, pool)
	}
	h.opened.Add(1)
	s, err := memory.New(memory.Config{Size: 1 << 20, BlockSize: max(n.BlockSize, 512)})
	return &heldBack{s, h}, nil, err
}

func (h *holder) set(holds bool) {
	h.holds.Store(holds)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, notify := range h.notifies {
		notify()
	}
}

type heldBack struct {
	backend.Store
	holder *holder
}

func (s *heldBack) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	s.holder.mu.Lock()
	defer s.holder.mu.Unlock()
	s.holder.notifies = append(s.holder.notifies, notify)
	return &heldQueue{q, s.holder}, err
}

type heldQueue struct {
	backend.Queue
	holder *holder
}

func (q *heldQueue) Poll(rs []backend.Result) int {
	if q.holder.holds.Load() {
		return 0
	}
	return q.Queue.Poll(rs)
}

// ThreadBound implements [backend.ThreadBound]: io_uring delivers completions on its own thread only.
func (q *heldQueue) ThreadBound() bool {
	b, ok := q.Queue.(backend.ThreadBound)
	return ok && b.ThreadBound()
}

// newHolding returns a rig of the first document whose file holds a write of a host. write begins another.
func newHolding(t *testing.T, change ...func(*Config)) (r *rig, h *holder, write func()) {
	h = new(holder)
	r = newRig(t, append([]func(*Config){func(c *Config) { c.Open = h.open }}, change...)...)
	r.write("a1", make([]byte, 1<<20))
	if _, err := r.Apply(r.doc(first), Options{}); err != nil {
		t.Fatal(err)
	}
	if r.cfg.Gateway != nil {
		if err := ServeGroup(t.Context(), r.Manager, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	c := newReturner(r).until(waitForHost)
	t.Cleanup(func() { h.set(false) }) // before the rig, which waits for it, is closed
	n, err := c.Namespace(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	write = func() {
		h.set(true)
		go func() { _, _ = n.WriteAt(make([]byte, n.BlockSize()), 0) }() // ends with the store
		r.await("the store has the write", func() bool { return len(r.target.Unfinished()) == 1 })
	}
	write()
	return r, h, write
}

// TestOtherOptionsWhileHung: a namespace whose options change has the new ones, or the change fails. A store that
// still hangs with the old ones is not used.
func TestOtherOptionsWhileHung(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string][]string{
		"buffered":     {"size: 1MiB\n      - nsid: 2", "size: 1MiB\n          buffered: true\n      - nsid: 2"},
		"read-only":    {"path: DIR/a1\n          size: 1MiB", "path: DIR/a1\n          read-only: true"},
		"block size":   edits["block size"],
		"reservations": {"- nsid: 1\n", "- nsid: 1\n        reservations: DIR/r\n"},
		"its number":   {"- nsid: 1\n", "- nsid: 7\n        reservations: DIR/r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h, _ := newHolding(t)
			r.leaveTimeout = 20 * time.Millisecond
			want := r.doc(strings.NewReplacer(edit...).Replace(first))
			var step *StepError
			if _, err := r.Apply(want, Options{Force: true}); !errors.As(err, new(*LeavingError)) || !errors.As(err, &step) || step.Undo != nil {
				t.Fatalf("%v, want that it is being removed", err)
			}
			r.wantState(r.doc(first))
			if _, err := r.Apply(want, Options{Force: true, Wait: true}); err != nil { // as a gateway that follows the others
				t.Fatal(err)
			}
			if w := r.Status().Waiting; len(w) != 1 || !strings.Contains(w[0].Why, "still being removed") || h.opened.Load() != 1 {
				t.Errorf("waiting are %+v, opened %d times", w, h.opened.Load())
			}
			h.set(false)
			r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
			r.wantState(want)
			if n := want.Subsystems[0].Namespaces[0]; h.opened.Load() != 2 || !r.stores.held[keyOf("a", n)].as.SameStore(n) {
				t.Errorf("opened %d times", h.opened.Load())
			}
		})
	}
}

// A countingKeeper counts how often reservations are read.
type countingKeeper struct {
	noKeeper
	loaded func()
}

func (k *countingKeeper) Load(answer func([]byte, error)) {
	k.loaded()
	answer(nil, nil)
}

// counted makes a target count how often it reads reservations.
func counted() (loads func() int, change func(*Config)) {
	var loaded atomic.Int32
	return func() int { return int(loaded.Load()) }, func(c *Config) {
		c.Keeper = func(nvmeof.NQN, *target.NamespaceConfig) target.ReservationKeeper {
			return &countingKeeper{loaded: func() { loaded.Add(1) }}
		}
	}
}

// TestReloadWhileHung: a namespace whose reservations are to be read again waits for a store that hangs no longer
// than other removals, and is not added again before they can be read.
func TestReloadWhileHung(t *testing.T) {
	t.Parallel()
	loads, count := counted()
	r, h, write := newHolding(t, count)
	before := loads()
	r.mu.Lock()
	r.late, r.leaveTimeout = true, 10*time.Second // an earlier change has waited for a store that hangs
	r.mu.Unlock()
	time.AfterFunc(2*r.leaveTimeout/lessTime, func() { h.set(false) })
	if err := ReloadNamespace(r.Manager, "a", 1); err != nil {
		t.Fatal(err)
	}
	if w := r.Status().Waiting; len(w) > 0 || loads() != before+1 {
		t.Errorf("waiting are %+v, read %d times", w, loads()-before)
	}
	write()
	r.mu.Lock()
	r.leaveTimeout = 20 * time.Millisecond
	r.mu.Unlock()
	if err := ReloadNamespace(r.Manager, "a", 1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(r.firstWait + 200*time.Millisecond) // it is retried
	if w := r.Status().Waiting; len(w) != 1 || !strings.Contains(w[0].Why, "still being removed") || loads() != before+1 {
		t.Errorf("waiting are %+v, read %d times", w, loads()-before)
	}
	h.set(false)
	r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
	if loads() != before+2 {
		t.Errorf("read %d times", loads()-before)
	}
}

// TestGroupBackWhileHung: a namespace that was meanwhile in the ANA group of another gateway, which may have
// changed its reservations, is not added again before they can be read.
func TestGroupBackWhileHung(t *testing.T) {
	t.Parallel()
	loads, count := counted()
	r, h, _ := newHolding(t, count, func(c *Config) {
		g := new(target.Gateway)
		next, err := target.New(target.Config{Arena: 4 << 20, Gateway: g})
		if err := errors.Join(err, c.Target.Close()); err != nil {
			t.Fatal(err)
		}
		c.Target, c.Gateway = next, g
	})
	r.leaveTimeout = 20 * time.Millisecond
	before := loads()
	for _, text := range []string{strings.Replace(first, "- nsid: 1\n", "- nsid: 1\n        ana-group: 3\n", 1), first} {
		if _, err := r.Apply(r.doc(text), Options{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if w := r.Status().Waiting; len(w) != 1 || !strings.Contains(w[0].Why, "still being removed") || loads() != before {
		t.Errorf("waiting are %+v, read %d times", w, loads()-before)
	}
	h.set(false)
	r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
	if loads() != before+1 {
		t.Errorf("read %d times", loads()-before)
	}
}
