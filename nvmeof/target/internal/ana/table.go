package ana

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// MaxGroups is the number of groups for administrators: 1 to MaxGroups.
const MaxGroups = 128

// Away is the group of namespaces whose stores are missing for now. It is inaccessible through every listener. It
// is ANAGRPMAX.
const Away = MaxGroups + 1

// Transition is ANATT: how many seconds a host waits for the end of the Change state before it stops using the
// path.
const Transition = 10

// States has a state for each group, by number.
type States [Away + 1]capsule.ANAState

// All returns States with every group in the same state.
func All(state capsule.ANAState) (s States) {
	for g := range s {
		s[g] = state
	}
	return s
}

// A Table has the state of each group on a listener: the worse of the state that an administrator has set for the
// listener (named) and the state that the target's ownership of the group allows (owned).
type Table struct {
	state   States
	named   States
	owned   States
	changes [Away + 1]uint64 // number of changes of the state since the listener was added
	total   uint64
}

// NewTable returns a table with all groups optimized, except those in named.
func NewTable(named map[capsule.ANAGroup]capsule.ANAState) (*Table, error) {
	t := &Table{named: All(capsule.ANAOptimized), owned: All(capsule.ANAOptimized)}
	t.named[Away] = capsule.ANAInaccessible
	for g, state := range named {
		if err := Check(g, state); err != nil {
			return nil, err
		}
		t.named[g] = state
	}
	t.state = t.named
	return t, nil
}

// Check checks a configured group and state.
func Check(g capsule.ANAGroup, state capsule.ANAState) error {
	if !Valid(g) {
		return fmt.Errorf("ANA group %d: want 1 to %d", g, MaxGroups)
	}
	switch state {
	case capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange:
		return nil
	}
	return fmt.Errorf("ANA group %d: state %#x: want one of the constants capsule.ANAOptimized and so on", g, uint8(state))
}

// Valid reports whether a group exists for administrators.
func Valid(g capsule.ANAGroup) bool { return g >= 1 && g <= MaxGroups }

// State returns the state of a group, which must exist.
func (t *Table) State(g capsule.ANAGroup) capsule.ANAState { return t.state[g] }

// Named returns the state that an administrator has set for a group.
func (t *Table) Named(g capsule.ANAGroup) capsule.ANAState { return t.named[g] }

// With returns a table with another state of a group, set by an administrator.
func (t *Table) With(g capsule.ANAGroup, state capsule.ANAState) *Table {
	next := *t
	next.named[g] = state
	next.settle()
	return &next
}

// Owned returns a table with other states that the target's ownership allows.
func (t *Table) Owned(owned *States) *Table {
	next := *t
	next.owned = *owned
	next.settle()
	return &next
}

// settle sets each state to the worse of the two, and counts the changes.
func (t *Table) settle() {
	for g := range t.state {
		state := worse(t.named[g], t.owned[g])
		if state == t.state[g] {
			continue
		}
		t.state[g] = state
		t.changes[g]++
		t.total++
	}
}

// worse returns the state in which a host can do less, or for a longer time.
func worse(a, b capsule.ANAState) capsule.ANAState {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func rank(s capsule.ANAState) int {
	switch s {
	case capsule.ANAOptimized:
		return 0
	case capsule.ANANonOptimized:
		return 1
	case capsule.ANAChange:
		return 2
	case capsule.ANAInaccessible:
		return 3
	}
	return 4 // persistent loss
}

// Status returns the status of commands for a group in its current state. Errors have no Do Not Retry bit, so that
// a host with another path uses that.
func (t *Table) Status(g capsule.ANAGroup) capsule.Status {
	switch t.state[g] {
	case capsule.ANAInaccessible:
		return capsule.StatusANAInaccessible
	case capsule.ANAPersistentLoss:
		return capsule.StatusANAPersistentLoss
	case capsule.ANAChange:
		return capsule.StatusANATransition
	}
	return capsule.StatusSuccess
}
