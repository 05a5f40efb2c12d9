package ana

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		g  capsule.ANAGroup
		s  capsule.ANAState
		ok bool
	}{
		{1, capsule.ANAOptimized, true}, {MaxGroups, capsule.ANAChange, true}, {7, capsule.ANAPersistentLoss, true},
		{0, capsule.ANAOptimized, false}, {MaxGroups + 1, capsule.ANAOptimized, false}, {1, 0, false}, {1, 5, false}, {1, 16, false},
	} {
		_, err := NewTable(map[capsule.ANAGroup]capsule.ANAState{c.g: c.s})
		if (err == nil) != c.ok {
			t.Errorf("group %d, state %#x: %v", c.g, uint8(c.s), err)
		}
	}
}

// TestTablesDoNotChange: shards read a table while the next one is created.
func TestTablesDoNotChange(t *testing.T) {
	a, err := NewTable(map[capsule.ANAGroup]capsule.ANAState{2: capsule.ANANonOptimized})
	if err != nil {
		t.Fatal(err)
	}
	b := a.With(2, capsule.ANAInaccessible)
	if a.State(2) != capsule.ANANonOptimized || b.State(2) != capsule.ANAInaccessible || b.State(1) != capsule.ANAOptimized {
		t.Errorf("group 2 is %v before and %v after, group 1 %v", a.State(2), b.State(2), b.State(1))
	}
}

// TestLogCounts: the counts of the page and of groups are sums of both kinds of changes.
func TestLogCounts(t *testing.T) {
	a, err := NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	a = a.With(3, capsule.ANAInaccessible).With(5, capsule.ANAChange)
	var regroups Changes
	regroups.Note(3)
	var m Members
	m.Add(3, 1)
	m.Add(3, 9)
	for _, groupsOnly := range []bool{false, true} {
		b := Log(a, &regroups, &m, groupsOnly)
		head, err := capsule.DecodeANALogHeader(b)
		if err != nil || head.CHGCNT != 3 || head.NGRPS != 1 {
			t.Fatalf("header %+v, %v", head, err)
		}
		d, err := capsule.DecodeANADescriptor(b[capsule.ANALogHeaderSize:])
		want := uint32(2)
		if groupsOnly {
			want = 0
		}
		if err != nil || d.Group != 3 || d.State != capsule.ANAInaccessible || d.CHGCNT != 2 || d.NNSIDS != want {
			t.Errorf("groups only %v: descriptor %+v, %v", groupsOnly, d, err)
		}
		if n := capsule.ANALogHeaderSize + capsule.ANADescriptorHeader + 4*int(want); len(b) != n {
			t.Errorf("groups only %v: %d bytes, want %d", groupsOnly, len(b), n)
		}
	}
}

// TestWorseOfTwo: the administrator's states and the target's ownership apply together, and a change without an
// effect is not counted.
func TestWorseOfTwo(t *testing.T) {
	states := []capsule.ANAState{capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAChange, capsule.ANAInaccessible, capsule.ANAPersistentLoss}
	for i, named := range states {
		for j, of := range states {
			a, err := NewTable(map[capsule.ANAGroup]capsule.ANAState{3: named})
			if err != nil {
				t.Fatal(err)
			}
			owned := All(of)
			if b := a.Owned(&owned); b.State(3) != states[max(i, j)] || b.Named(3) != named {
				t.Errorf("%v, and owned %v: %v", named, of, b.State(3))
			} else if b.changes[3] != 0 && j <= i {
				t.Error("what is not seen is counted")
			}
		}
	}
}
