package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// leaveTimeout is how long a change waits for stores to finish commands that they have. One
// that hangs holds up what needs it, and not the changes of others.
const leaveTimeout = 5 * time.Second

// A leaving is something that was removed, for hosts and in the document, and is there
// until a store has finished commands that it has. It belongs to the Manager's mutex.
type leaving struct {
	what       string          // "device rxe0"
	unfinished func() []string // names of exports
	since      time.Time

	nqn       nvmeof.NQN // of a namespace that leaves
	namespace *config.Namespace
	anew      bool // its reservations are read again before it comes back
}

// Leaving is something that was removed, and waits for stores that have commands yet.
type Leaving struct {
	What       string    `json:"what"`
	Unfinished []string  `json:"unfinished"` // exports whose stores it waits for
	Since      time.Time `json:"since"`
}

// A LeavingError says that something cannot be had again yet: it is being removed.
type LeavingError struct {
	What       string
	Unfinished []string // exports whose stores hang
}

func (e *LeavingError) Error() string {
	return e.What + " is still being removed: it waits for commands that " + e.stores() + " has not finished; see what is wrong there"
}

func (e *LeavingError) stores() string {
	if len(e.Unfinished) == 0 {
		return "a store"
	}
	return "the store of " + strings.Join(e.Unfinished, ", that of ")
}

// remove runs f, which may wait for stores, and waits for it for as long as leaveTimeout
// has it, and for less if the change under way has waited so long before: a hundred
// namespaces of one file system do not take a hundred times as long. Then it is for the
// change as if it were done, and goes on by itself. after is called at its end, with mu
// held as remove is.
func (m *Manager) remove(l *leaving, f func() error, after func()) error {
	done := make(chan error, 1)
	m.removals.Go(func() { done <- f() }) // ends when the stores have finished
	wait := m.leaveTimeout
	if m.late {
		wait /= lessTime
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case err := <-done:
		after()
		return err
	case <-late.C:
	}
	m.late = true
	l.since = time.Now().Add(-wait)
	m.leaving[l] = struct{}{}
	m.log.Warn("a store hangs: what was removed stays until commands have ended, everything else goes on",
		zap.String("removed", l.what), zap.Strings("waits_for_store_of", l.unfinished()), zap.Duration("for", wait),
		zap.String("remedy", "see what is wrong with what is below the store"))
	m.removals.Go(func() { m.removed(l, <-done, after) }) // ends soon after f
	return nil
}

// removed is the end of a removal that took longer than a change waits.
func (m *Manager) removed(l *leaving, err error, after func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leaving, l)
	after()
	if !m.closed {
		m.stores.begin(m.startTimeout)
		err = cmp.Or(err, m.stores.sweep())
	}
	fields := []zap.Field{zap.String("removed", l.what), zap.Duration("after", time.Since(l.since))}
	if err != nil {
		m.log.Warn("what waited for a store is removed, not without an error", append(fields, zap.Error(err))...)
		return
	}
	m.log.Info("what waited for a store is removed", fields...)
}

// unlessLeaving explains why something cannot be had, for which what has its name is locked
// until it has left. Called with mu held.
func unlessLeaving(m *Manager, what string, err error) error {
	for l := range m.leaving {
		if l.what == what {
			return &LeavingError{what, l.unfinished()}
		}
	}
	return err
}

// takeOut ends a namespace of the target. Called with mu held.
func takeOut(m *Manager, at namespaceKey, n *config.Namespace, anew bool, end func(capsule.NSID) error) error {
	l := &leaving{what: namespaceName(at), unfinished: exports(exportName(n)), nqn: at.nqn, namespace: n, anew: anew}
	return m.remove(l, func() error { return end(capsule.NSID(n.NSID)) }, func() { m.stores.release(at.nqn, n) })
}

// outdated is why a namespace cannot be had yet: what it exports is open for one that leaves, which
// was another, and would be used as it is. Called with mu held.
func outdated(m *Manager, nqn nvmeof.NQN, n *config.Namespace) error {
	for l := range m.leaving {
		if l.namespace == nil || keyOf(l.nqn, l.namespace) != keyOf(nqn, n) {
			continue
		}
		if l.anew || !n.SameStore(l.namespace) || n.Reservations != l.namespace.Reservations {
			return &LeavingError{l.what, l.unfinished()}
		}
	}
	return nil
}

// left lists what is leaving. Called with mu held.
func (m *Manager) left() []Leaving {
	out := []Leaving{}
	for l := range m.leaving {
		out = append(out, Leaving{l.what, append([]string{}, l.unfinished()...), l.since})
	}
	slices.SortFunc(out, func(a, b Leaving) int { return cmp.Compare(a.What, b.What) })
	return out
}

// exports names what namespaces export, for those that wait for it.
func exports(names ...string) func() []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return func() []string { return names }
}

// namespaceName is how a namespace that leaves is called.
func namespaceName(at namespaceKey) string { return fmt.Sprintf("namespace %d of %s", at.nsid, at.nqn) }
