package state

import (
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// What follows is the state of a controller on its way to another process, whose clock is
// another one: times are relative.

// MovedEvents are [Events] without the held requests, which arrive again.
type MovedEvents struct{ Enabled, Pending, Masked uint32 }

// Export returns the events.
func (e *Events[R]) Export() MovedEvents { return MovedEvents{e.Enabled, e.pending, e.masked} }

// Restore makes the events what they were.
func (e *Events[R]) Restore(m MovedEvents) {
	e.Enabled, e.pending, e.masked = m.Enabled, m.Pending, m.Masked
}

// MovedChanges are [ChangedNamespaces].
type MovedChanges struct {
	IDs []capsule.NSID
	All bool
}

// Export returns the list.
func (l *ChangedNamespaces) Export() MovedChanges { return MovedChanges{slices.Clone(l.ids), l.all} }

// Restore makes the list what it was.
func (l *ChangedNamespaces) Restore(m MovedChanges) {
	*l = ChangedNamespaces{all: m.All}
	for _, id := range m.IDs {
		l.Add(id)
	}
}

// MovedSuccessors are [Unidentified].
type MovedSuccessors struct {
	Descriptors bool
	Pending     []MovedSuccessor
}

// A MovedSuccessor is one of the namespaces.
type MovedSuccessor struct {
	ID         capsule.NSID
	Generation uint32
	Kinds      IdentifyKind
	Read       bool // everything that the host reads
}

// Export returns the namespaces.
func (s *Unidentified) Export() MovedSuccessors {
	m := MovedSuccessors{Descriptors: s.descriptors}
	for _, id := range slices.Sorted(maps.Keys(s.pending)) {
		x := s.pending[id]
		m.Pending = append(m.Pending, MovedSuccessor{id, x.generation, x.kinds, x.due != 0})
	}
	return m
}

// Restore makes the namespaces what they were. What the host has read counts from now on.
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

// MovedNotices are [ReservationLogs].
type MovedNotices struct {
	Pages []capsule.ReservationLog
	Count uint64
	Masks map[capsule.NSID]uint32
}

// Export returns the pages.
func (l *ReservationLogs) Export() MovedNotices {
	return MovedNotices{slices.Clone(l.pages), l.count, maps.Clone(l.masks)}
}

// Restore makes the pages what they were.
func (l *ReservationLogs) Restore(m MovedNotices) {
	*l = ReservationLogs{pages: m.Pages[:min(len(m.Pages), maxReservationLogs)], count: m.Count, masks: m.Masks}
}

// MovedWritten are [Written].
type MovedWritten struct {
	IDs []capsule.NSID
	All bool
}

// Export returns the namespaces.
func (w *Written) Export() MovedWritten {
	m := MovedWritten{All: w.all}
	for _, id := range w.ids {
		if id != 0 {
			m.IDs = append(m.IDs, id)
		}
	}
	return m
}

// Restore makes the namespaces what they were.
func (w *Written) Restore(m MovedWritten) {
	*w = Written{}
	for _, id := range m.IDs {
		w.Add(id)
	}
	w.all = w.all || m.All
}

// MovedKeepAlive is [KeepAlive]. The deadline is a whole timeout away again.
type MovedKeepAlive struct {
	Millis  uint32
	Timeout time.Duration // also that of Fallback
}

// Export returns the timeout.
func (k *KeepAlive) Export() MovedKeepAlive {
	return MovedKeepAlive{k.Millis, time.Duration(k.timeout)}
}

// Restore starts the timeout anew.
func (k *KeepAlive) Restore(m MovedKeepAlive, now int64) {
	k.Set(m.Millis, now)
	if m.Millis == 0 && m.Timeout > 0 {
		k.Fallback(m.Timeout, now)
	}
}
