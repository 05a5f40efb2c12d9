package multipath

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestManyNamespaces: no more namespaces can be open than the limit, and removed ones do not count.
func TestManyNamespaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		add := func(id capsule.NSID) {
			t.Helper()
			if _, err := l.sides[0].sub.AddNamespace(target.NamespaceConfig{Store: l.store, NSID: id}); err != nil {
				t.Fatal(err)
			}
		}
		add(2)
		add(3)
		add(4)
		cfg := l.config()
		cfg.MaxNamespaces = 2
		s := l.connect(cfg)
		first := l.namespace(s)
		second, err := s.Namespace(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Namespace(t.Context(), 3); !errors.Is(err, ErrManyNamespaces) {
			t.Errorf("a third: %v", err)
		}
		l.must(second.Close())
		third, err := s.Namespace(t.Context(), 3)
		if err != nil {
			t.Fatalf("after another was closed: %v", err)
		}
		l.must(l.sides[0].sub.RemoveNamespace(3))
		soon(t, "it is removed", third.Removed)
		fourth, err := s.Namespace(t.Context(), 4)
		if err != nil {
			t.Fatalf("after another was removed: %v", err)
		}
		for _, n := range []*Namespace{first, third, fourth} {
			l.must(n.Close())
		}
	})
	if err := (&Config{NQN: testNQN, Paths: make([]PathConfig, 1), MaxNamespaces: -1}).check(); err == nil {
		t.Error("less than none is possible")
	}
}
