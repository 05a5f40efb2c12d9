package target

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// verifierOf returns the verifier that a host reads.
func verifierOf(t *testing.T, f *fixture, s *Subsystem) capsule.WriteVerifier {
	t.Helper()
	h := f.tenant("a", s, 0)
	b := make([]byte, capsule.IdentifySize)
	identify := adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: capsule.CNSNamespace}, b)
	identify.sqe.NSID = 1
	h.admin.wantOK(identify)
	id, err := capsule.DecodeIdentifyNamespace(b)
	f.must(err)
	return id.WriteVerifier
}

// verified starts a target in a boot of its machine, with a namespace whose store has a volatile cache.
func verified(t *testing.T, state StateStore, boot string) (*fixture, *Subsystem, *fakeStore) {
	t.Helper()
	f := newFixture(t, func(c *Config) { c.Boot = boot })
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":verified", State: state})
	f.must(err)
	store := newFakeStore(1 << 20)
	_, err = s.AddNamespace(NamespaceConfig{Store: store, Name: "one"})
	f.must(err)
	return f, s, store
}

// TestWriteVerifier: it changes if and only if the machine has restarted since a target ran that did not end in
// order, with the hosts' data flushed.
func TestWriteVerifier(t *testing.T) {
	for _, row := range []struct {
		name     string
		kill     bool
		fail     bool // the flush at the end fails
		boot     string
		changes  bool
		notKnown bool // the boot is unknown
	}{
		{name: "ended, same boot", boot: "a"},
		{name: "ended, another boot", boot: "b"},
		{name: "killed, same boot", kill: true, boot: "a"},
		{name: "killed, another boot", kill: true, boot: "b", changes: true},
		{name: "ended without a flush, same boot", fail: true, boot: "a"},
		{name: "ended without a flush, another boot", fail: true, boot: "b", changes: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			state := new(savedState)
			f, s, store := verified(t, state, "a")
			before := verifierOf(t, f, s)
			killed, _ := state.Load()
			f.tenant("b", s, 0).io.wantOK(writeOf(1))
			if row.fail {
				store.set(false, backend.ErrFailed)
			}
			err := f.target.Close()
			if failed := errors.Is(err, backend.ErrFailed); failed != row.fail || err != nil && !failed {
				t.Errorf("closed: %v", err)
			}
			if row.kill {
				f.must(state.Save(killed))
			}
			f, s, _ = verified(t, state, row.boot)
			if now := verifierOf(t, f, s); before == 0 || now == 0 || (now != before) != row.changes {
				t.Errorf("it was %#x, and is %#x", before, now)
			}
		})
	}
}

// TestWriteVerifierInherited: data that was written through a target that was killed is flushed at the end of the
// next one in the same boot. Only then has it ended in order.
func TestWriteVerifierInherited(t *testing.T) {
	for _, fail := range []bool{false, true} {
		state := new(savedState)
		f, s, _ := verified(t, state, "a")
		before := verifierOf(t, f, s)
		f.tenant("b", s, 0).io.wantOK(writeOf(1))
		killed, _ := state.Load()
		f.must(f.target.Close())
		f.must(state.Save(killed))
		f, _, store := verified(t, state, "a")
		if fail {
			store.set(false, backend.ErrFailed)
		}
		if err := f.target.Close(); (err != nil) != fail {
			t.Errorf("closed: %v", err)
		}
		if !store.flushed() {
			t.Error("not flushed at the end of the next target")
		}
		f, s, _ = verified(t, state, "b")
		if now := verifierOf(t, f, s); (now != before) != fail {
			t.Errorf("the flush fails: %v; it was %#x, and is %#x", fail, before, now)
		}
	}
}

// TestWriteVerifierOfLeft: data written to a namespace is flushed when it is removed or suspended. If that fails,
// its subsystem does not end in order.
func TestWriteVerifierOfLeft(t *testing.T) {
	for _, row := range []struct {
		name    string
		back    bool // it returns, with another store of the same content
		fail    bool // the flush fails
		device  bool // the device is removed before
		changes bool
	}{
		{name: "removed"}, {name: "suspended", back: true},
		{name: "removed without a flush", fail: true, changes: true}, {name: "suspended without a flush", back: true, fail: true, changes: true},
		{name: "removed without a device", device: true, changes: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			state := new(savedState)
			f, s, store := verified(t, state, "a")
			before := verifierOf(t, f, s)
			f.tenant("b", s, 0).io.wantOK(writeOf(1))
			if row.device {
				f.must(f.target.first.Remove("test"))
			}
			if row.fail {
				store.set(false, backend.ErrFailed)
			}
			if row.back {
				f.must(s.SuspendNamespace(1))
				again := newFakeStore(1 << 20)
				_, err := s.AddNamespace(NamespaceConfig{Store: again, Name: "one"})
				f.must(err)
				defer func() {
					if again.flushed() != row.fail {
						t.Errorf("flushed as it came back: %v", !row.fail)
					}
				}()
			} else {
				f.must(s.RemoveNamespace(1))
			}
			if !row.device && !store.flushed() {
				t.Error("not flushed as it left")
			}
			f.must(f.target.Close())
			f, s, _ = verified(t, state, "b")
			if now := verifierOf(t, f, s); (now != before) != row.changes {
				t.Errorf("it was %#x, and is %#x", before, now)
			}
		})
	}
}

// TestWriteVerifierOfLeaving: a subsystem does not end in order while the flush of a removed namespace is under
// way.
func TestWriteVerifierOfLeaving(t *testing.T) {
	state := new(savedState)
	f, s, store := verified(t, state, "a")
	before := verifierOf(t, f, s)
	f.tenant("b", s, 0).io.wantOK(writeOf(1))
	store.set(true, nil)
	ends := make(chan error, 2)
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	go func() { ends <- s.RemoveNamespace(1) }()
	await("no flush", func() bool { return store.inFlight() == 1 })
	go func() { ends <- f.target.Close() }()
	await("the subsystem has not ended", func() bool {
		s.life.mu.Lock()
		defer s.life.mu.Unlock()
		return s.life.ended
	})
	store.set(false, nil)
	f.must(<-ends)
	f.must(<-ends)
	f, s, _ = verified(t, state, "b")
	if now := verifierOf(t, f, s); now == before {
		t.Errorf("it is %#x still", now)
	}
}

// TestStateOfRefused: the state of a subsystem that could not be added is that of a target that has ended in
// order.
func TestStateOfRefused(t *testing.T) {
	state := new(savedState)
	f, s, _ := verified(t, new(savedState), "a")
	if _, err := f.target.AddSubsystem(SubsystemConfig{NQN: s.NQN(), State: state}); err == nil {
		t.Fatal("two subsystems of one name")
	}
	f, s, _ = verified(t, state, "b")
	f.tenant("a", s, 0).wantLife(2, 0, 0, 0)
}

// flushed reports whether the store was flushed since the last call of ops.
func (s *fakeStore) flushed() bool {
	return slices.ContainsFunc(s.ops(), func(r backend.Request) bool { return r.Op == backend.OpFlush })
}

// TestWriteVerifierWithoutDevice: data that a target without a device cannot flush at its end may be lost.
func TestWriteVerifierWithoutDevice(t *testing.T) {
	state := new(savedState)
	f, s, _ := verified(t, state, "a")
	before := verifierOf(t, f, s)
	f.tenant("b", s, 0).io.wantOK(writeOf(1))
	f.must(f.target.first.Remove("test"))
	f.must(f.target.Close())
	f, s, _ = verified(t, state, "b")
	if now := verifierOf(t, f, s); now == before {
		t.Errorf("it is %#x still", now)
	}
}

// TestEndWhileStoreHangs: a target that ends waits for the flush of a store that does not answer, and names it.
func TestEndWhileStoreHangs(t *testing.T) {
	f, s, store := verified(t, nil, "a")
	f.tenant("b", s, 0).io.wantOK(writeOf(1))
	store.set(true, nil)
	closed := make(chan error, 1)
	go func() { closed <- f.target.Close() }()
	for end := time.Now().Add(10 * time.Second); store.inFlight() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no flush")
		}
	}
	if names := f.target.Unfinished(); !slices.Equal(names, []string{"one"}) {
		t.Errorf("unfinished: %q", names)
	}
	store.set(false, nil)
	f.must(<-closed)
}

// TestNoWriteVerifier: without a state, there is no verifier.
func TestNoWriteVerifier(t *testing.T) {
	f, s, _ := verified(t, nil, "a")
	if v := verifierOf(t, f, s); v != 0 {
		t.Errorf("it is %#x", v)
	}
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":full", State: fullState{}, AwaitState: true})
	f.must(err)
	_, err = s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Name: "two"})
	f.must(err)
	if v := verifierOf(t, f, s); v != 0 {
		t.Errorf("of a state that could not be saved it is %#x", v)
	}
	if err := f.target.Close(); !errors.Is(err, backend.ErrNoSpace) {
		t.Errorf("closed: %v", err)
	}
}

// TestWriteVerifierOfKind: a namespace without a volatile cache in the machine has no verifier, and all namespaces
// of a state have the same one.
func TestWriteVerifierOfKind(t *testing.T) {
	f, s, store := verified(t, new(savedState), "a")
	first := verifierOf(t, f, s)
	for _, cache := range []struct{ volatile, remote bool }{{false, false}, {true, true}} {
		f.must(s.RemoveNamespace(1))
		store.info.Volatile, store.info.Remote = cache.volatile, cache.remote
		_, err := s.AddNamespace(NamespaceConfig{Store: store, Name: "one"})
		f.must(err)
		if v := verifierOf(t, f, s); v != 0 {
			t.Errorf("%+v: it is %#x", cache, v)
		}
	}
	state := new(savedState)
	f, s, _ = verified(t, state, "a")
	second := verifierOf(t, f, s)
	running, _ := state.Load()
	f.must(f.target.Close())
	f.must(state.Save(running))
	f, s, _ = verified(t, state, "b")
	if third := verifierOf(t, f, s); first.Keeper() == second.Keeper() || third.Keeper() != second.Keeper() || third == second {
		t.Errorf("%#x of one state, then %#x and %#x of another", first, second, third)
	}
}

// A fullState cannot be saved.
type fullState struct{}

func (fullState) Load() ([]byte, error) { return nil, nil }
func (fullState) Save([]byte) error     { return backend.ErrNoSpace }

// TestFlushedAtTheEnd: hosts' data is durable when a target, or a subsystem, has ended in order; stores without
// writes are not flushed.
func TestFlushedAtTheEnd(t *testing.T) {
	for _, write := range []bool{true, false} {
		f, s, store := verified(t, nil, "a")
		h := f.tenant("a", s, 0)
		if write {
			h.io.wantOK(writeOf(1))
		}
		f.must(f.target.RemoveSubsystem(s.NQN()))
		if flushed := store.flushed(); flushed != write {
			t.Errorf("written: %v, flushed: %v", write, flushed)
		}
	}
}

// A cachedMemory is memory with leases that is a cache of something durable.
type cachedMemory struct {
	*memory.Store
	flushes atomic.Int32
}

func (s *cachedMemory) Info() backend.Info {
	info := s.Store.Info()
	info.Volatile = true
	return info
}

func (s *cachedMemory) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return &countingQueue{q, &s.flushes}, err
}

// A countingQueue counts flushes.
type countingQueue struct {
	backend.Queue
	flushes *atomic.Int32
}

func (q *countingQueue) Submit(rs []backend.Request) int {
	for i := range rs {
		if rs[i].Op == backend.OpFlush {
			q.flushes.Add(1)
		}
	}
	return q.Queue.Submit(rs)
}

// TestLeaserWithCache: data written to memory that is a cache is flushed at the end, and a Read with Force Unit
// Access flushes it before the host gets the data.
func TestLeaserWithCache(t *testing.T) {
	f := newFixture(t)
	memory, err := memory.New(memory.Config{Size: 1 << 20, BlockSize: 512})
	f.must(err)
	s := &cachedMemory{Store: memory}
	f.export(s)
	_, io := f.both()
	io.wantOK(writeOf(2))
	io.wantOK(readOf(2))
	wantFlushes := func(want int32, what string) {
		t.Helper()
		if n := s.flushes.Load(); n != want {
			t.Errorf("%s: %d flushes, want %d", what, n, want)
		}
	}
	wantFlushes(0, "written and read")
	io.wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 1, FUA: true}, make([]byte, 512)))
	wantFlushes(1, "read with force unit access")
	f.must(f.target.Close())
	wantFlushes(2, "closed")
	f.must(memory.Close())
}

// TestMovedUnflushed: nothing is flushed during a move, since hosts would wait for that. The target that continues
// flushes at its end what hosts wrote before, and only then has the state that of a target that ended in order.
func TestMovedUnflushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, n := overMovable(1, softroce.Faults{Delay: 20 * time.Microsecond})
		r := newRemote(t, open)
		store := newFakeStore(1 << 20)
		r.served = store
		if err := r.sub.RemoveNamespace(1); err != nil {
			t.Fatal(err)
		}
		if _, err := r.sub.AddNamespace(NamespaceConfig{Store: store}); err != nil {
			t.Fatal(err)
		}
		_, io := r.controller(1)
		io[0].do(writeOf(1).sqe, 0, 512)
		r.move(n)
		if store.flushed() {
			t.Error("flushed while the associations moved")
		}
		r.close()
		if !store.flushed() {
			t.Error("not flushed at the end")
		}
	})
}
