package target

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// PortID identifies a listener in the discovery log, and to administrators.
type PortID uint16

// ID returns the listener's identifier.
func (l *Listener) ID() PortID { return l.port.id }

// Listeners lists the listeners in the order of their identifiers.
func (t *Target) Listeners() []*Listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.listeners)
}

// listener returns the listener with an identifier, or nil. Called with mu held.
func (t *Target) listener(id PortID) *Listener {
	for _, l := range t.listeners {
		if l.port.id == id {
			return l
		}
	}
	return nil
}

// freePort returns the lowest identifier without a listener. Called with mu held.
func (t *Target) freePort() PortID {
	for id := PortID(1); ; id++ {
		if t.listener(id) == nil && !peerOf(t, id) {
			return id
		}
	}
}

// peerOf reports whether another target has a listener with an identifier. Called with mu held.
func peerOf(t *Target, id PortID) bool {
	return slices.ContainsFunc(t.peers, func(p Peer) bool { return p.Port == id })
}

// RemoveListener ends a listener and the connections through it. Hosts with another path continue there. For hosts
// without one, first set the ANA states of its groups to inaccessible and wait until they have left.
func (t *Target) RemoveListener(id PortID) error {
	t.mu.Lock()
	l := t.listener(id)
	if l == nil || t.closed {
		t.mu.Unlock()
		return fmt.Errorf("listener %d does not exist", id)
	}
	t.removeListenersLocked(func(o *Listener) bool { return o == l })
	t.mu.Unlock()
	return l.end("listener was removed")
}

// removeListenersLocked removes listeners from the target; the caller has to end them. Called with mu held.
func (t *Target) removeListenersLocked(which func(*Listener) bool) (gone []*Listener) {
	for _, l := range t.listeners {
		if which(l) {
			l.removed.Store(true)
			gone = append(gone, l)
		}
	}
	t.reshapeLocked(nil, func() { t.listeners = slices.DeleteFunc(slices.Clone(t.listeners), which) })
	return gone
}

// end closes a listener that was removed, and the connections through it.
func (l *Listener) end(why string) error {
	err := l.listener.Close()
	<-l.ended
	// All accepted connections are registered by now.
	n := l.target.dropQueues(func(q *queue) bool { return q.listener == l }, why)
	l.target.log.Info("listener removed", zap.Stringer("address", l.port.addr), zap.Uint16("port", uint16(l.port.id)),
		zap.String("why", why), zap.Int("queues_disconnected", n))
	l.recordEvent(events.Info, "listener removed: "+why)
	return err
}

// dropQueues disconnects the queues that which selects, and returns how many.
func (t *Target) dropQueues(which func(*queue) bool, why string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.queues {
		if which(q) {
			n++
			q.shard.Do(func() { q.disconnect(why) })
		}
	}
	return n
}

// SetPorts exposes the subsystem only on the listeners with these identifiers, which may be added later, or on all
// if ports is nil, which is the default. Controllers on other listeners are disconnected.
func (s *Subsystem) SetPorts(ports []PortID) {
	s.target.reshape([]*Subsystem{s}, func() {
		if ports == nil {
			s.ports.Store(nil)
			return
		}
		sorted := slices.Sorted(slices.Values(ports))
		s.ports.Store(&sorted)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if !s.exposed(c.listener.port.id) && s.target.unsettled.now.Load() == 0 {
			c.hide()
		}
	}
}

// Ports lists the identifiers of the listeners on which the subsystem is exposed; nil means all.
func (s *Subsystem) Ports() []PortID {
	if p := s.ports.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// exposed reports whether the subsystem is exposed on a listener.
func (s *Subsystem) exposed(id PortID) bool {
	return exposedOn(s.ports.Load(), id)
}

// exposedOn reports whether a subsystem with these ports is exposed on a listener.
func exposedOn(ports *[]PortID, id PortID) bool {
	if ports == nil {
		return true
	}
	_, found := slices.BinarySearch(*ports, id)
	return found
}

// RemoveSubsystem disconnects the subsystem's hosts, waits until none of their operations is in flight, and
// removes its namespaces.
func (t *Target) RemoveSubsystem(nqn nvmeof.NQN) error {
	t.mu.Lock()
	s := t.subsystems[nqn]
	if s == nil {
		t.mu.Unlock()
		return fmt.Errorf("subsystem %s does not exist", nqn)
	}
	t.reshapeLocked([]*Subsystem{s}, func() {
		delete(t.subsystems, nqn)
		t.sorted.remove(s)
	})
	t.mu.Unlock()
	s.retire()
	s.mu.Lock()
	n := len(s.controllers)
	for _, c := range s.controllers {
		c.dismiss("subsystem was removed")
	}
	s.mu.Unlock()
	awaitEmpty(s)
	t.log.Info("subsystem removed", zap.String("subsystem", string(nqn)), zap.Int("controllers_disconnected", n))
	recordEvent(t, events.Change, events.Info, events.Event{Subsystem: string(nqn), Text: "subsystem removed"})
	return finish(s)
}

// finish ends a subsystem that has no controllers any more.
func finish(s *Subsystem) error {
	durable, err := true, error(nil)
	switch {
	case s.target.moved.Load(): // the process that continues with the hosts flushes
		durable = false
	case s.target.cfg.Gateway == nil: // otherwise a drained group has been flushed, and a lost one cannot be
		durable, err = flushStores(s)
	}
	return errors.Join(err, s.removeNamespaces(), s.endLife(durable))
}

// awaitEmpty waits until no controllers are left.
func awaitEmpty(s *Subsystem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.controllers) > 0 {
		s.empty.Wait()
	}
}

// closeSubsystem ends a subsystem of a target that is being closed, whose connections are ending. If a store
// hangs, so that this takes long, the subsystem's state is saved meanwhile, since the process may be killed.
func closeSubsystem(s *Subsystem) error {
	s.retire()
	defer time.AfterFunc(longClose, func() { _ = s.save() }).Stop() // errors are logged
	awaitEmpty(s)
	return finish(s)
}

// longClose is far more than stores need to finish their operations.
const longClose = 2 * time.Second

// retire prevents controllers and namespaces from being added. It waits for a namespace that is being added.
func (s *Subsystem) retire() {
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
}

func (s *Subsystem) isRemoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removed
}

// removeNamespaces removes the namespaces, and waits until none is in use. Data was flushed before, or is flushed
// by the process that continues.
func (s *Subsystem) removeNamespaces() error {
	var errs []error
	for _, ns := range s.Namespaces() {
		errs = append(errs, s.end(ns.ns.ID, false, nil))
	}
	return errors.Join(errs...)
}
