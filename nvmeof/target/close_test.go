package target

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
)

// A savedState is a StateStore in memory.
type savedState struct {
	mu sync.Mutex
	b  []byte
}

func (s *savedState) Load() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b, nil
}

func (s *savedState) Save(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = bytes.Clone(b)
	return nil
}

func (s *savedState) want(t *testing.T, running bool, writes uint64) {
	t.Helper()
	b, _ := s.Load()
	r, err := life.Decode(b)
	if got := r.Namespaces[1].Counts.Writes; err != nil || r.Running != running || got != writes {
		t.Errorf("saved: running %v, %d writes, %v; want %v, %d", r.Running, got, err, running, writes)
	}
}

// TestCloseWhileStoreHangs is row 82: when a target is closed while a store hangs, it waits only for that store,
// and names it. Subsystems whose hosts do not use the store are closed; for the others their counters are saved.
func TestCloseWhileStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := [2]savedState{}
		f := newFixture(t)
		hung := newFakeStore(1 << 20)
		add := func(name string, state *savedState, s *fakeStore) *Subsystem {
			sub, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":with-" + nvmeof.NQN(name), State: state})
			f.must(err)
			_, err = sub.AddNamespace(NamespaceConfig{Store: s, Name: name})
			f.must(err)
			return sub
		}
		bad, well := add("hung", &state[0], hung), add("well", &state[1], newFakeStore(1<<20))
		for _, s := range []*Subsystem{bad, well} {
			f.tenant("a", s, 0).io.wantOK(writeOf(1))
		}
		b := f.tenant("b", bad, 0)
		if names := f.target.Unfinished(); len(names) > 0 {
			t.Errorf("%q are unfinished", names)
		}
		hung.set(true, nil)
		b.io.start(ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
		f.within(b.io, "the store has it", func() bool { return hung.inFlight() == 1 })
		closed := make(chan error, 1)
		go func() { closed <- f.target.Close() }() // ends when the store does
		time.Sleep(10 * time.Second)
		state[0].want(t, true, 1)
		state[1].want(t, false, 1)
		if names := f.target.Unfinished(); !slices.Equal(names, []string{"hung"}) {
			t.Errorf("%q are unfinished", names)
		}
		select {
		case err := <-closed:
			t.Errorf("closed while a store has a command: %v", err)
		default:
		}
		hung.set(false, nil)
		f.must(<-closed)
		state[0].want(t, false, 2)
		if names := f.target.Unfinished(); len(names) > 0 {
			t.Errorf("%q are unfinished", names)
		}
	})
}

// TestCloseWhileStoreDoesNotAnswer is the same for a store that hangs in a query of its size.
func TestCloseWhileStoreDoesNotAnswer(t *testing.T) {
	f := newFixture(t)
	mute := &muteStore{fakeStore: newFakeStore(1 << 20), answer: make(chan struct{})}
	n, err := f.sub.AddNamespace(NamespaceConfig{Store: mute, Name: "mute"})
	f.must(err)
	mute.hangs.Store(true)
	go f.target.lookAt(n.ns.Volume) // ends when the store answers
	asked := func() bool { return slices.Equal(f.target.Unfinished(), []string{"mute"}) }
	for !asked() {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan error, 1)
	go func() { closed <- f.target.Close() }() // likewise
	for f.sub.table().At(n.ID()) != nil {
		time.Sleep(time.Millisecond)
	}
	if !asked() {
		t.Errorf("%q are unfinished", f.target.Unfinished())
	}
	close(mute.answer)
	f.must(<-closed)
}
