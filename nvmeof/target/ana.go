package target

import (
	"strconv"

	"fmt"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
)

func (l *Listener) state(g capsule.ANAGroup) capsule.ANAState { return l.ana.Load().State(g) }

// ANAState returns the state of a group for hosts of the listener: the worse of the state that SetANAState set and
// the state that [Config.Gateway] allows. Groups are 1 to 128; for others it returns 0.
func (l *Listener) ANAState(g capsule.ANAGroup) capsule.ANAState {
	if !ana.Valid(g) {
		return 0
	}
	return l.state(g)
}

// SetANAState changes the state of a group for hosts of the listener, for namespaces of all subsystems. Hosts are
// notified by an event. Commands that begin after the call are subject to the new state: in the states
// inaccessible, persistent loss and change they fail with the corresponding status, without Do Not Retry, so that
// a host with another path uses that.
func (l *Listener) SetANAState(g capsule.ANAGroup, state capsule.ANAState) error {
	if err := ana.Check(g, state); err != nil {
		return err
	}
	l.mu.Lock()
	before := l.ana.Load()
	if before.Named(g) == state {
		l.mu.Unlock()
		return nil
	}
	now := before.With(g, state)
	l.ana.Store(now)
	l.mu.Unlock()
	l.target.causes.Count(meter.ANAChanges, "", label(state.String()), strconv.FormatUint(uint64(g), 10))
	l.target.log.Info("ANA state changed", zap.Uint16("port", uint16(l.port.id)), zap.Stringer("address", l.port.addr),
		zap.Uint32("group", uint32(g)), zap.Stringer("state", state))
	recordEvent(l.target, events.ANA, events.Info, events.Event{Address: l.port.addr.String(),
		Text: fmt.Sprintf("ANA group %d on listener %d is now %v", g, l.port.id, state)})
	if now.State(g) == before.State(g) {
		return nil // another target owns the group
	}
	for _, s := range l.target.Subsystems() {
		s.anaChanged(l, g)
	}
	return nil
}

// anaChanged notifies the controllers whose ANA log has changed: those of a listener, or of all if l is nil, whose
// hosts see namespaces of the group.
func (s *Subsystem) anaChanged(l *Listener, g capsule.ANAGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if (l == nil || c.listener == l) && c.view.Sees(g) {
			c.do(func() { c.raise(capsule.EventANAChange) })
		}
	}
}

// regrouped counts a change of a group: a namespace was added to it, removed from it, or moved.
func (s *Subsystem) regrouped(g capsule.ANAGroup) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.regroups.Note(g)
}

func (s *Subsystem) groupChanges() ana.Changes {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.regroups
}
