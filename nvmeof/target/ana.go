package target

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// maxANAGroups is ANAGRPMAX: how many ANA groups there are. Each namespace is in
// one, and each listener has a state for each (NVMe base 2.0, 8.1).
const maxANAGroups = 128

// anaTransition is ANATT: how many seconds a host waits for the end of the Change
// state before it gives the path up.
const anaTransition = 10

// An anaTable is how a listener reaches each group. It does not change.
type anaTable struct {
	state   [maxANAGroups + 1]capsule.ANAState
	changes [maxANAGroups + 1]uint64 // of the state, since the listener is there
	total   uint64
}

// newANATable has all groups optimized but for those that are named.
func newANATable(named map[capsule.ANAGroup]capsule.ANAState) (*anaTable, error) {
	t := new(anaTable)
	for g := range t.state {
		t.state[g] = capsule.ANAOptimized
	}
	for g, state := range named {
		if err := checkANA(g, state); err != nil {
			return nil, err
		}
		t.state[g] = state
	}
	return t, nil
}

func checkANA(g capsule.ANAGroup, state capsule.ANAState) error {
	if g < 1 || g > maxANAGroups {
		return fmt.Errorf("ANA group %d: 1 to %d", g, maxANAGroups)
	}
	switch state {
	case capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange:
		return nil
	}
	return fmt.Errorf("ANA group %d: state %#x: want one of the constants capsule.ANAOptimized and so on", g, uint8(state))
}

func (l *Listener) state(g capsule.ANAGroup) capsule.ANAState { return l.ana.Load().state[g] }

// ANAState is how hosts reach the namespaces of a group through the listener.
// Groups are 1 to 128; others give 0.
func (l *Listener) ANAState(g capsule.ANAGroup) capsule.ANAState {
	if g < 1 || g > maxANAGroups {
		return 0
	}
	return l.state(g)
}

// SetANAState changes that, for namespaces of all subsystems. Hosts are told by
// an event. Commands that begin from now on meet the new state; in the states
// inaccessible, persistent loss and change they fail with the status of that
// name, without Do Not Retry, so that a host with another path uses it.
func (l *Listener) SetANAState(g capsule.ANAGroup, state capsule.ANAState) error {
	if err := checkANA(g, state); err != nil {
		return err
	}
	l.mu.Lock()
	before := l.ana.Load()
	if before.state[g] == state {
		l.mu.Unlock()
		return nil
	}
	next := *before
	next.state[g] = state
	next.changes[g]++
	next.total++
	l.ana.Store(&next)
	l.mu.Unlock()
	l.target.log.Info("ANA state changed", zap.Uint16("port", uint16(l.port.id)), zap.Stringer("address", l.port.addr),
		zap.Uint32("group", uint32(g)), zap.Stringer("state", state))
	for _, s := range l.target.Subsystems() {
		s.anaChanged(l, g)
	}
	return nil
}

// anaChanged tells the controllers whose ANA log has changed: those of a
// listener, or of all where it is nil, whose host sees namespaces of the group.
func (s *Subsystem) anaChanged(l *Listener, g capsule.ANAGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if (l == nil || c.listener == l) && c.sees(g) {
			c.do(func() { c.raise(capsule.EventANAChange) })
		}
	}
}

// sees reports whether the host has namespaces of a group.
func (c *Controller) sees(g capsule.ANAGroup) bool {
	r := c.rights.Load()
	for _, ns := range c.subsystem.table() {
		if ns != nil && ns.Group() == g && r.access(ns.id) != AccessNone {
			return true
		}
	}
	return false
}

// pathStatus is what I/O commands get in a state.
func pathStatus(state capsule.ANAState) capsule.Status {
	switch state {
	case capsule.ANAInaccessible:
		return capsule.StatusANAInaccessible
	case capsule.ANAPersistentLoss:
		return capsule.StatusANAPersistentLoss
	case capsule.ANAChange:
		return capsule.StatusANATransition
	}
	return capsule.StatusSuccess
}

// anaChanges count how the groups of a subsystem changed otherwise than by state:
// by namespaces that came, went or changed hands.
type anaChanges struct {
	groups [maxANAGroups + 1]uint64
	total  uint64
}

// regrouped notes such a change of the group of a namespace.
func (s *Subsystem) regrouped(n *Namespace) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.regroups.groups[n.Group()]++
	s.regroups.total++
}

func (s *Subsystem) groupChanges() anaChanges {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.regroups
}

// anaLog has the groups of the namespaces that the host sees. The change counts
// never go back while the controller is there, and stay while nothing changes.
func (c *Controller) anaLog(f capsule.GetLogPage) []byte {
	membership, path := c.subsystem.groupChanges(), c.listener.ana.Load()
	var members [maxANAGroups + 1][]capsule.NSID
	r := c.rights.Load()
	for _, ns := range c.subsystem.table() {
		if ns != nil && r.access(ns.id) != AccessNone {
			g := ns.Group()
			members[g] = append(members[g], ns.id)
		}
	}
	b := make([]byte, capsule.ANALogHeaderSize)
	head := capsule.ANALogHeader{CHGCNT: path.total + membership.total}
	for g, ids := range members {
		if len(ids) == 0 {
			continue
		}
		if f.LSP&capsule.ANALogGroupsOnly != 0 {
			ids = nil
		}
		head.NGRPS++
		at := len(b)
		b = append(b, make([]byte, capsule.ANADescriptorHeader+4*len(ids))...)
		capsule.ANADescriptor{
			Group: capsule.ANAGroup(g), NNSIDS: uint32(len(ids)), State: path.state[g],
			CHGCNT: path.changes[g] + membership.groups[g],
		}.Encode(b[at:])
		capsule.PutNSIDs(b[at+capsule.ANADescriptorHeader:], ids)
	}
	head.Encode(b)
	return b
}
