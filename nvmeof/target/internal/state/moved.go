package state

import (
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// The types below are the state of a controller on its way to another process, which has another clock: times are
// relative.

// MovedEvents is [Events] without the held requests, which arrive again.
type MovedEvents struct{ Enabled, Pending, Masked uint32 }

// Export returns the events for another process.
func (e *Events[R]) Export() MovedEvents { return MovedEvents{e.Enabled, e.pending, e.masked} }

// Restore sets the events of another process.
func (e *Events[R]) Restore(m MovedEvents) {
	e.Enabled, e.pending, e.masked = m.Enabled, m.Pending, m.Masked
}

// MovedChanges is [ChangedNamespaces] on its way to another process.
type MovedChanges struct {
	IDs []capsule.NSID
	All bool
}

// Export returns the list for another process.
func (l *ChangedNamespaces) Export() MovedChanges { return MovedChanges{slices.Clone(l.ids), l.all} }

// Restore sets the list of another process.
func (l *ChangedNamespaces) Restore(m MovedChanges) {
	*l = ChangedNamespaces{all: m.All}
	for _, id := range m.IDs {
		l.Add(id)
	}
}

// MovedSuccessors is [Unidentified] on its way to another process.
type MovedSuccessors struct {
	Descriptors bool
	Pending     []MovedSuccessor
}

// A MovedSuccessor is one of the namespaces.
type MovedSuccessor struct {
	ID         capsule.NSID
	Generation uint32
	Kinds      IdentifyKind
	Read       bool // the host has read everything that it reads
}

// Export returns the namespaces for another process.
func (s *Unidentified) Export() MovedSuccessors {
	m := MovedSuccessors{Descriptors: s.descriptors}
	for _, id := range slices.Sorted(maps.Keys(s.pending)) {
		x := s.pending[id]
		m.Pending = append(m.Pending, MovedSuccessor{id, x.generation, x.kinds, x.due != 0})
	}
	return m
}

// Restore sets the namespaces of another process. The time since the host has read everything restarts.
func (s *Unidentified) Restore(m MovedSuccessors, now int64) {
	*s = Unidentified{descriptors: m.Descriptors, pending: make(map[capsule.NSID]*successor)}
	for _, o := range m.Pending {
		x := &successor{generation: o.Generation, kinds: o.Kinds}
		if o.Read {
			x.due = now + int64(IdentifySettle)
		}
		s.pending[o.ID] = x
	}
}

// MovedNotices is [ReservationLogs] on its way to another process.
type MovedNotices struct {
	Pages []capsule.ReservationLog
	Count uint64
	Masks map[capsule.NSID]uint32
}

// Export returns the pages for another process.
func (l *ReservationLogs) Export() MovedNotices {
	return MovedNotices{slices.Clone(l.pages), l.count, maps.Clone(l.masks)}
}

// Restore sets the pages of another process.
func (l *ReservationLogs) Restore(m MovedNotices) {
	*l = ReservationLogs{pages: m.Pages[:min(len(m.Pages), maxReservationLogs)], count: m.Count, masks: m.Masks}
}

// MovedWritten is [Written] on its way to another process.
type MovedWritten struct {
	IDs []capsule.NSID
	All bool
}

// Export returns the namespaces for another process.
func (w *Written) Export() MovedWritten {
	m := MovedWritten{All: w.all}
	for _, id := range w.ids {
		if id != 0 {
			m.IDs = append(m.IDs, id)
		}
	}
	return m
}

// Restore sets the namespaces of another process.
func (w *Written) Restore(m MovedWritten) {
	*w = Written{}
	for _, id := range m.IDs {
		w.Add(id)
	}
	w.all = w.all || m.All
}

// MovedKeepAlive is [KeepAlive] on its way to another process. The timer restarts there.
type MovedKeepAlive struct {
	Millis  uint32
	Timeout time.Duration // includes that of Fallback
}

// Export returns the timeout for another process.
func (k *KeepAlive) Export() MovedKeepAlive {
	return MovedKeepAlive{k.Millis, time.Duration(k.timeout)}
}

// Restore sets the timeout of another process, and restarts the timer.
func (k *KeepAlive) Restore(m MovedKeepAlive, now int64) {
	k.Set(m.Millis, now)
	if m.Millis == 0 && m.Timeout > 0 {
		k.Fallback(m.Timeout, now)
	}
}
