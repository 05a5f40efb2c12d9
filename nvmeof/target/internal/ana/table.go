package ana

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// MaxGroups is how many groups administrators have: 1 to MaxGroups.
const MaxGroups = 128

// Away is the group of namespaces whose stores are missing for now. It is inaccessible
// through every listener, and is ANAGRPMAX.
const Away = MaxGroups + 1

// Transition is ANATT: how many seconds a host waits for the end of the Change state
// before it stops using the path.
const Transition = 10

// A Table has the state of each group through a listener.
type Table struct {
	state   [Away + 1]capsule.ANAState
	changes [Away + 1]uint64 // of the state, since the listener is there
	total   uint64
}

// NewTable has all groups optimized but for those that are named.
func NewTable(named map[capsule.ANAGroup]capsule.ANAState) (*Table, error) {
	t := new(Table)
	for g := range t.state {
		t.state[g] = capsule.ANAOptimized
	}
	t.state[Away] = capsule.ANAInaccessible
	for g, state := range named {
		if err := Check(g, state); err != nil {
			return nil, err
		}
		t.state[g] = state
	}
	return t, nil
}

// Check checks a group and a state that are configured.
func Check(g capsule.ANAGroup, state capsule.ANAState) error {
	if !Valid(g) {
		return fmt.Errorf("ANA group %d: 1 to %d", g, MaxGroups)
	}
	switch state {
	case capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange:
		return nil
	}
	return fmt.Errorf("ANA group %d: state %#x: want one of the constants capsule.ANAOptimized and so on", g, uint8(state))
}

// Valid reports whether a group exists for administrators.
func Valid(g capsule.ANAGroup) bool { return g >= 1 && g <= MaxGroups }

// State is the state of a group, which must exist.
func (t *Table) State(g capsule.ANAGroup) capsule.ANAState { return t.state[g] }

// With returns a table in which a group has another state.
func (t *Table) With(g capsule.ANAGroup, state capsule.ANAState) *Table {
	next := *t
	next.state[g] = state
	next.changes[g]++
	next.total++
	return &next
}

// Status is the status of commands in the state of a group: those that fail do so without
// Do Not Retry, so that a host with another path uses it.
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
