package storage

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestProtecting: a change is in force at once. If it fails, the state is that of the other changes; if it
// succeeds, that of the changes after it.
func TestProtecting(t *testing.T) {
	const none, on, untilOff = capsule.WriteProtectNone, capsule.WriteProtected, capsule.WriteProtectedUntilOff
	type end struct {
		which int
		ok    bool
		want  capsule.WriteProtection
	}
	for i, c := range []struct {
		begin []capsule.WriteProtection
		ends  []end
	}{
		{[]capsule.WriteProtection{on}, []end{{0, false, none}, {0, true, none}}},
		{[]capsule.WriteProtection{on, on}, []end{{0, false, on}, {1, false, none}}},
		{[]capsule.WriteProtection{on, on}, []end{{1, true, on}, {0, false, on}}},
		{[]capsule.WriteProtection{on, none}, []end{{1, false, on}, {0, true, on}}},
		{[]capsule.WriteProtection{on, none}, []end{{0, true, none}, {1, false, on}}},
		{[]capsule.WriteProtection{on, none, on}, []end{{1, true, on}, {2, false, none}, {0, true, none}}},
		{[]capsule.WriteProtection{on, untilOff}, []end{{1, true, untilOff}, {0, true, untilOff}}},
	} {
		n := NewNamespace(Identity{ID: 1}, 1, false)
		var all []*Protecting
		for _, to := range c.begin {
			change, may := n.BeginProtect(to)
			if change == nil || !may || n.Protection() != to {
				t.Fatalf("row %d: %d does not begin", i, to)
			}
			all = append(all, change)
		}
		for at, e := range c.ends {
			if all[e.which].End(e.ok); n.Protection() != e.want {
				t.Errorf("row %d: after end %d it is %d, want %d", i, at, n.Protection(), e.want)
			}
		}
		if change, may := n.BeginProtect(n.Protection()); change != nil || !may {
			t.Errorf("row %d: what it is already is a change", i)
		}
	}
	n := NewNamespace(Identity{ID: 1}, 1, false)
	n.Protect(untilOff)
	if change, may := n.BeginProtect(on); change != nil || may {
		t.Error("protection until the power goes is changed")
	}
}
