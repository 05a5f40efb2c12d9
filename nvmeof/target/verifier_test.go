package target

import (
	"errors"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// verifierOf is what a host reads.
func verifierOf(t *testing.T, f *fixture, s *Subsystem) capsule.WriteVerifier {
	t.Helper()
	h := f.tenant("a", s, 0)
	b := make([]byte, capsule.IdentifySize)
	h.admin.wantOK(adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: capsule.CNSController}, b))
	id, err := capsule.DecodeIdentifyController(b)
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

// TestWriteVerifier: it changes when the machine has restarted since a target ran that had not ended in
// order, with what hosts wrote flushed, and not otherwise.
func TestWriteVerifier(t *testing.T) {
	for _, row := range []struct {
		name     string
		kill     bool
		fail     bool // the flush at the end
		boot     string
		changes  bool
		notKnown bool // which boot it is
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

// TestNoWriteVerifier: without a state that survives nobody knows.
func TestNoWriteVerifier(t *testing.T) {
	f, s, _ := verified(t, nil, "a")
	if v := verifierOf(t, f, s); v != 0 {
		t.Errorf("it is %#x", v)
	}
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":full", State: fullState{}, AwaitState: true})
	f.must(err)
	if v := verifierOf(t, f, s); v != 0 {
		t.Errorf("of a state that could not be saved it is %#x", v)
	}
	if err := f.target.Close(); !errors.Is(err, backend.ErrNoSpace) {
		t.Errorf("closed: %v", err)
	}
}

// A fullState cannot be saved.
type fullState struct{}

func (fullState) Load() ([]byte, error) { return nil, nil }
func (fullState) Save([]byte) error     { return backend.ErrNoSpace }

// TestFlushedAtTheEnd: what hosts wrote is durable when a target, or a subsystem, has ended in order;
// what nobody wrote is not flushed.
func TestFlushedAtTheEnd(t *testing.T) {
	for _, write := range []bool{true, false} {
		f, s, store := verified(t, nil, "a")
		h := f.tenant("a", s, 0)
		if write {
			h.io.wantOK(writeOf(1))
		}
		f.must(f.target.RemoveSubsystem(s.NQN()))
		flushed := slices.ContainsFunc(store.ops(), func(r backend.Request) bool { return r.Op == backend.OpFlush })
		if flushed != write {
			t.Errorf("written: %v, flushed: %v", write, flushed)
		}
	}
}
