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

// ID is the listener's identifier.
func (l *Listener) ID() PortID { return l.port.id }

// Listeners lists the listeners in the order of their identifiers.
func (t *Target) Listeners() []*Listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.listeners)
}

// listener finds a listener by its identifier, or returns nil. Called with mu
// held.
func (t *Target) listener(id PortID) *Listener {
	for _, l := range t.listeners {
		if l.port.id == id {
			return l
		}
	}
	return nil
}

// freePort is the lowest identifier without a listener. Called with mu held.
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

// RemoveListener ends a listener and the connections that came through it. Hosts
// with another path go on there; for those without one, set the ANA states of
// its groups to inaccessible first and wait until the hosts have left.
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

// removeListenersLocked removes listeners from the target, which then have to be ended.
// Called with mu held.
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
	// Whatever was accepted is registered by now.
	n := l.target.dropQueues(func(q *queue) bool { return q.listener == l }, why)
	l.target.log.Info("listener removed", zap.Stringer("address", l.port.addr), zap.Uint16("port", uint16(l.port.id)),
		zap.String("why", why), zap.Int("queues_disconnected", n))
	l.happened(events.Info, "listener removed: "+why)
	return err
}

// dropQueues disconnects queues and returns how many.
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

// SetPorts exposes the subsystem on the listeners with these identifiers only, which may
// be added later, or on all if ports is nil, which is the default. Controllers through
// other listeners are disconnected.
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

// Ports lists the listeners on which the subsystem is exposed; nil is all.
func (s *Subsystem) Ports() []PortID {
	if p := s.ports.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// exposed reports whether the subsystem can be reached through a listener.
func (s *Subsystem) exposed(id PortID) bool {
	return exposedOn(s.ports.Load(), id)
}

// exposedOn is exposed of a subsystem with these ports.
func exposedOn(ports *[]PortID, id PortID) bool {
	if ports == nil {
		return true
	}
	_, found := slices.BinarySearch(*ports, id)
	return found
}

// RemoveSubsystem disconnects the subsystem's hosts, waits until nothing of
// theirs is in flight, and removes its namespaces.
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
	happened(t, events.Change, events.Info, events.Event{Subsystem: string(nqn), Text: "subsystem removed"})
	return finish(s)
}

// finish ends a subsystem that has no controllers any more.
func finish(s *Subsystem) error {
	durable, err := true, error(nil)
	switch {
	case s.target.moved.Load(): // hosts wait, and who goes on with them flushes
		durable = false
	case s.target.cfg.Gateway == nil: // else a group that is drained has been flushed, and one that is lost cannot be
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

// closeSubsystem ends a subsystem of a target that is being closed, whose connections end. Where a
// store hangs, and that takes long, what it has counted is saved meanwhile: the process may
// be killed.
func closeSubsystem(s *Subsystem) error {
	s.retire()
	defer time.AfterFunc(longClose, func() { _ = s.save() }).Stop() // an error is logged
	awaitEmpty(s)
	return finish(s)
}

// longClose is far above what stores take to finish what they have.
const longClose = 2 * time.Second

// retire lets no controller and no namespace join any more. One that is being added is there
// when it returns.
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

// removeNamespaces waits until none is in use any more. What was written is flushed, or will be by who goes on.
func (s *Subsystem) removeNamespaces() error {
	var errs []error
	for _, ns := range s.Namespaces() {
		errs = append(errs, s.end(ns.ns.ID, false, nil))
	}
	return errors.Join(errs...)
}
