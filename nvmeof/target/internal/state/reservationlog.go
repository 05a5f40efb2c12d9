package state

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// maxReservationLogs is how many notices wait for the host; more are counted.
const maxReservationLogs = 255

// ReservationLogs are a controller's Reservation Notification log pages and the masks of
// its namespaces (NVMe base 2.0, 5.16.1.24 and 5.27.1.27).
type ReservationLogs struct {
	pages []capsule.ReservationLog // oldest first
	count uint64
	shown uint64 // the count of the page that Encode gave last; 0: none
	masks map[capsule.NSID]uint32
}

// Add adds a page, and reports whether there is one more: there is not if the host masks
// the notice, or the log is full.
func (l *ReservationLogs) Add(id capsule.NSID, what capsule.ReservationNotice) bool {
	if l.masks[id]>>what&1 != 0 {
		return false
	}
	if l.count++; l.count == 0 {
		l.count = 1 // 0 stands for no page
	}
	if len(l.pages) == maxReservationLogs {
		return false
	}
	l.pages = append(l.pages, capsule.ReservationLog{Count: l.count, Notice: what, NSID: id})
	return true
}

// Drop removes the pages of a namespace, and reports whether none is left.
func (l *ReservationLogs) Drop(id capsule.NSID) (empty bool) {
	l.pages = slices.DeleteFunc(l.pages, func(p capsule.ReservationLog) bool { return p.NSID == id })
	return len(l.pages) == 0
}

// Encode fills b with the oldest page, or leaves it empty.
func (l *ReservationLogs) Encode(b []byte) {
	if l.shown = 0; len(l.pages) > 0 {
		page := l.pages[0]
		l.shown = page.Count
		page.Available = uint8(len(l.pages) - 1)
		page.Encode(b)
	}
}

// Read drops the page that was read, if it is there yet, and reports whether there is another.
func (l *ReservationLogs) Read() bool {
	if len(l.pages) > 0 && l.pages[0].Count == l.shown {
		l.pages = l.pages[1:]
	}
	return len(l.pages) > 0
}

// Mask is the notices of a namespace that the host masks.
func (l *ReservationLogs) Mask(id capsule.NSID) uint32 { return l.masks[id] }

// SetMask sets them.
func (l *ReservationLogs) SetMask(id capsule.NSID, v uint32) {
	if l.masks == nil {
		l.masks = make(map[capsule.NSID]uint32)
	}
	if l.masks[id] = v; v == 0 {
		delete(l.masks, id)
	}
}
