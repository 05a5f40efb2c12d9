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

// leaveTimeout is how long a change waits for stores to finish their commands. A store that hangs delays what needs
// it, but not other changes.
const leaveTimeout = 5 * time.Second

// A leaving is an object that hosts and the document no longer have, and that exists until a store has finished its
// commands. The Manager's mutex guards it.
type leaving struct {
	what       string          // "device rxe0"
	unfinished func() []string // returns the names of the exports that it waits for
	since      time.Time

	nqn       nvmeof.NQN // for a namespace
	namespace *config.Namespace
	anew      bool // the reservations must be read again before the namespace is added again
}

// Leaving is an object that was removed and waits for stores that have not finished their commands.
type Leaving struct {
	What       string    `json:"what"`
	Unfinished []string  `json:"unfinished"` // exports for whose stores it waits
	Since      time.Time `json:"since"`
}

// A LeavingError reports that an object cannot be created again yet, since it is still being removed.
type LeavingError struct {
	What       string
	Unfinished []string // exports whose stores hang
}

func (e *LeavingError) Error() string {
	return e.What + " is still being removed: it waits for commands that have not completed; check the file system or device of " + e.stores()
}

func (e *LeavingError) stores() string {
	if len(e.Unfinished) == 0 {
		return "its stores"
	}
	return strings.Join(e.Unfinished, ", ")
}

// remove runs f, which may wait for stores. It waits for f up to leaveTimeout. If the current change has already
// waited that long, the limit is lower: a hundred namespaces of one file system do not take a hundred times as
// long. After that it returns as if f had ended, and f continues. after is called when f has ended, with mu held.
// The caller holds mu.
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
	m.log.Warn("a store hangs: the removal waits until its commands have completed; everything else continues",
		zap.String("removed", l.what), zap.Strings("waits_for_store_of", l.unfinished()), zap.Duration("for", wait),
		zap.String("remedy", "check the file system or device of the store"))
	m.removals.Go(func() { m.removed(l, <-done, after) }) // ends soon after f
	return nil
}

// removed ends a removal that took longer than the change waited.
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
		m.log.Warn("delayed removal finished, with an error", append(fields, zap.Error(err))...)
		return
	}
	m.log.Info("delayed removal finished", fields...)
}

// unlessLeaving returns a LeavingError if the object with that name is still being removed and thus locked, else
// err. The caller holds mu.
func unlessLeaving(m *Manager, what string, err error) error {
	for l := range m.leaving {
		if l.what == what {
			return &LeavingError{what, l.unfinished()}
		}
	}
	return err
}

// takeOut removes a namespace from the target. The caller holds mu.
func takeOut(m *Manager, at namespaceKey, n *config.Namespace, anew bool, end func(capsule.NSID) error) error {
	l := &leaving{what: namespaceName(at), unfinished: exports(exportName(n)), nqn: at.nqn, namespace: n, anew: anew}
	return m.remove(l, func() error { return end(capsule.NSID(n.NSID)) }, func() { m.stores.release(at.nqn, n) })
}

// outdated returns an error if a namespace cannot be added yet: its store is still open for one that is being
// removed and that had other options. The caller holds mu.
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

// left returns the objects that are still being removed. The caller holds mu.
func (m *Manager) left() []Leaving {
	out := []Leaving{}
	for l := range m.leaving {
		out = append(out, Leaving{l.what, append([]string{}, l.unfinished()...), l.since})
	}
	slices.SortFunc(out, func(a, b Leaving) int { return cmp.Compare(a.What, b.What) })
	return out
}

// exports returns a function that returns the sorted names of exports.
func exports(names ...string) func() []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return func() []string { return names }
}

// namespaceName returns the name of a namespace in messages.
func namespaceName(at namespaceKey) string { return fmt.Sprintf("namespace %d of %s", at.nsid, at.nqn) }
