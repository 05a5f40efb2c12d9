package target

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// TestNoDevice: a target that never had a device does everything except serve hosts.
func TestNoDevice(t *testing.T) {
	target, err := New(Config{Revalidate: time.Millisecond}) // its stores are examined meanwhile
	if err != nil {
		t.Fatal(err)
	}
	s, err := target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
	if err != nil {
		t.Fatal(err)
	}
	store := newFakeStore(1 << 20)
	add := func(store backend.Store) *Namespace {
		t.Helper()
		n, err := s.AddNamespace(NamespaceConfig{Store: store, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n, same := add(store), add(store)
	if n.Info().Size != 1<<20 || same.Info().Size != 1<<20 {
		t.Errorf("%+v, %+v", n.Info(), same.Info())
	}
	if err := n.Pause(time.Second); err != nil {
		t.Error(err)
	}
	if err := n.Resume(); err != nil {
		t.Error(err)
	}
	n.SetReadOnly(true)
	if err := n.SetGroup(2); err != nil {
		t.Error(err)
	}
	if err := n.ClearFault(); err == nil {
		t.Error("a store that has not failed is cleared")
	}
	target.Revalidate()
	time.Sleep(5 * time.Millisecond)
	if err := s.RemoveNamespace(same.ID()); err != nil {
		t.Error(err)
	}
	if err := s.RemoveNamespace(n.ID()); err != nil {
		t.Error(err)
	}
	add(store)
	if err := target.RemoveSubsystem(testSubNQN); err != nil {
		t.Error(err)
	}
	if s, err = target.AddSubsystem(SubsystemConfig{NQN: testSubNQN}); err != nil {
		t.Fatal(err)
	}
	add(store)
	if err := target.Close(); err != nil {
		t.Error(err)
	}
}
