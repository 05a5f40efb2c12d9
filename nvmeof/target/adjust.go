package target

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// SetReadOnly makes the namespace read-only for all hosts, or writable again for hosts with the right to write.
// Hosts are notified by an event; writes that have begun are executed.
func (n *Namespace) SetReadOnly(on bool) {
	if n.ns.SetReadOnly(on) {
		n.subsystem.namespaceChanged(n.ns.ID)
	}
}

// ReadOnly reports whether SetReadOnly, or NamespaceConfig, made the namespace read-only.
func (n *Namespace) ReadOnly() bool { return n.ns.ReadOnly() }

// SetRefuseReservations sets whether hosts' reservation commands are refused, and Identify reports the namespace
// without reservations. A reservation made before, or through another namespace of the same store, stays in force.
func (n *Namespace) SetRefuseReservations(on bool) {
	if n.ns.SetReservable(!on && !n.unkept) {
		n.subsystem.namespaceChanged(n.ns.ID)
	}
}

// RefuseReservations reports whether SetRefuseReservations, or NamespaceConfig, refuses reservations.
func (n *Namespace) RefuseReservations() bool { return !n.ns.Reservable() }

// Group returns the namespace's ANA group.
func (n *Namespace) Group() capsule.ANAGroup { return n.ns.Group() }

// SetGroup moves the namespace to another ANA group, 1 to 128.
func (n *Namespace) SetGroup(g capsule.ANAGroup) error {
	if !ana.Valid(g) {
		return fmt.Errorf("namespace %d of %s: ANA group %d: want 1 to %d", n.ns.ID, n.subsystem.nqn, g, ana.MaxGroups)
	}
	s := n.subsystem
	s.change.LockAt(0)
	defer s.change.Unlock()
	if n.Group() == g {
		return nil
	}
	s.regrouped(n.Group())
	n.ns.SetGroup(g)
	s.regrouped(g)
	s.namespaceChanged(n.ns.ID)
	s.anaChanged(nil, g)
	return nil
}

// MaxPause is the longest time for which commands may be held: a Linux host aborts them after 30 s.
const MaxPause = 25 * time.Second

const defaultPause = 10 * time.Second

// Pause holds new commands of the namespace, from all hosts of its subsystem, and returns when the commands under
// way have completed: the store is then idle, unless another namespace exports it too. The pause ends when Resume
// is called or limit has passed since the call; limit is at most 25 s, and 0 means 10 s. If the commands under way
// have not completed within limit, Pause fails. If a host does not send the data of such a command, its queue ends
// before that. The error is a [StateError], unless limit is invalid.
func (n *Namespace) Pause(limit time.Duration) error {
	limit = orDefault(limit, defaultPause)
	if limit < 0 || limit > MaxPause {
		return fmt.Errorf("namespace %d of %s: pause of %v: want at most %v, since hosts abort commands that take longer", n.ns.ID, n.subsystem.nqn, limit, MaxPause)
	}
	end := time.Now().Add(limit)
	quiet, late, err := n.shut(limit)
	if err != nil {
		return err
	}
	defer late.Stop()
	t := n.subsystem.target
	timeout := max(min(t.fetchTimeout, limit/2), time.Millisecond)
	ended := t.urge(quiet, late.C, timeout, func(q *queue) bool { return q.holdsUp(n.is) })
	n.subsystem.change.LockAt(0)
	defer n.subsystem.change.Unlock()
	if n.pausing != late { // held commands continue already
		return n.unfit(errors.New("it was removed, or resumed before its commands had completed; it is not paused"))
	}
	n.pausing = nil
	if !ended {
		n.ns.Unshut()
		return n.unfit(fmt.Errorf("its commands have not completed within %v; it is not paused", limit))
	}
	n.pauses++
	this := n.pauses
	n.pause = time.AfterFunc(time.Until(end), func() { n.endPause(this) }) // ends with Resume at the latest
	n.ns.SetPaused(true)
	n.recordEvent(events.Namespace, events.Info, fmt.Sprintf("paused, for %v at most", limit))
	return nil
}

// shut begins a pause: quiet is closed when no command is under way any more. The timer limits the wait for that,
// without holding Subsystem.change, since a store may hang.
func (n *Namespace) shut(limit time.Duration) (quiet <-chan struct{}, late *time.Timer, err error) {
	n.subsystem.change.LockAt(0)
	defer n.subsystem.change.Unlock()
	switch {
	case n.removed:
		return nil, nil, n.unfit(errors.New("it was removed"))
	case n.pause != nil:
		return nil, nil, n.unfit(errors.New("it is paused already"))
	case n.pausing != nil:
		return nil, nil, n.unfit(errors.New("it is being paused already"))
	}
	n.pausing = time.NewTimer(limit)
	return n.ns.Shut(), n.pausing, nil
}

// Resume ends a pause, or makes a call to Pause fail that still waits for commands. If there is neither, it
// returns a [StateError].
func (n *Namespace) Resume() error {
	s := n.subsystem
	s.change.LockAt(0)
	defer s.change.Unlock()
	if n.pause == nil && n.pausing == nil {
		return n.unfit(errors.New("it is not paused"))
	}
	if n.pause != nil {
		n.recordEvent(events.Namespace, events.Info, "pause ended")
	}
	n.stopPause()
	n.ns.Unshut()
	return nil
}

// endPause ends a pause whose limit has passed.
func (n *Namespace) endPause(which uint64) {
	s := n.subsystem
	s.change.LockAt(0)
	defer s.change.Unlock()
	if n.pause == nil || n.pauses != which {
		return
	}
	n.stopPause()
	n.subsystem.target.log.Warn("pause of a namespace ended at its time limit; commands are executed again",
		zap.Uint32("nsid", uint32(n.ns.ID)), zap.String("subsystem", string(s.nqn)), zap.String("remedy", fmt.Sprintf("run nvmeof namespace resume %d -n %s before the limit, or pause with a longer --limit", uint32(n.ns.ID), word(s.nqn))))
	n.recordEvent(events.Namespace, events.Warning, "pause ended at its time limit")
	n.ns.Unshut()
}

// Paused reports whether commands are held.
func (n *Namespace) Paused() bool {
	n.subsystem.change.LockAt(0)
	defer n.subsystem.change.Unlock()
	return n.pause != nil
}

// stopPause stops the timer of a pause, or ends a call to Pause. Called with Subsystem.change held.
func (n *Namespace) stopPause() {
	if n.pausing != nil {
		n.pausing.Reset(0)
		n.pausing = nil
	}
	if n.pause != nil {
		n.pause.Stop()
		n.pause = nil
		n.ns.SetPaused(false)
	}
}

// Revalidate reads the size of every store. If it has changed, Identify reports the new size, hosts are notified
// by an event, and commands beyond the new end fail.
func (t *Target) Revalidate() {
	for _, v := range t.volumes.All() {
		if v.Revalidate() {
			t.exports(v, (*Subsystem).namespaceChanged)
		}
	}
}

// exports calls f with each export of a volume: the subsystem and the namespace's identifier.
func (t *Target) exports(v *storage.Volume, f func(*Subsystem, capsule.NSID)) {
	for _, s := range t.Subsystems() {
		for ns := range s.table().All {
			if ns.Volume == v {
				f(s, ns.ID)
			}
		}
	}
}
