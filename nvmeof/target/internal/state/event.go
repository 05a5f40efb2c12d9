package state

import "github.com/nvmeof-go/nvmeof/capsule"

// MaxEvents is how many Asynchronous Event Requests a controller holds; AERL is one less.
const MaxEvents = 4

// Events that have no bit in Asynchronous Event Configuration: every host gets them, and
// none can disable them.
const (
	EventFailure     uint32 = 1 << 16 // a namespace accepts no writes any more
	EventReservation uint32 = 1 << 30
)

// SupportedEvents is OAES of I/O controllers, and SupportedDiscoveryEvents of discovery
// controllers.
const (
	SupportedEvents          = capsule.EventNamespaceAttribute | capsule.EventANAChange
	SupportedDiscoveryEvents = capsule.EventDiscoveryChange
)

// A notice is one kind of event that the target can report.
type notice struct {
	bit   uint32 // in AEC
	event capsule.AsyncEvent
}

// kinds is in the order in which pending events are reported.
var kinds = [...]notice{
	{capsule.EventNamespaceAttribute, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeNamespaceChanged, LID: capsule.LogChangedNamespaces}},
	{capsule.EventANAChange, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeANAChange, LID: capsule.LogANA}},
	{capsule.EventDiscoveryChange, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeDiscoveryChange, LID: capsule.LogDiscovery}},
	{EventReservation, capsule.AsyncEvent{Type: capsule.EventTypeIOSet,
		Info: capsule.EventReservationLog, LID: capsule.LogReservation}},

	{EventFailure, capsule.AsyncEvent{Type: capsule.EventTypeError,
		Info: capsule.ErrorPersistentInternal, LID: capsule.LogError}},
	{uint32(capsule.WarningSpare), smartEvent(capsule.SMARTSpare)},
	{uint32(capsule.WarningTemperature), smartEvent(capsule.SMARTTemperature)},
	{uint32(capsule.WarningReliability), smartEvent(capsule.SMARTReliability)},
	{uint32(capsule.WarningReadOnly), smartEvent(capsule.SMARTReliability)},
	{uint32(capsule.WarningBackup), smartEvent(capsule.SMARTReliability)},
}

func smartEvent(info uint8) capsule.AsyncEvent {
	return capsule.AsyncEvent{Type: capsule.EventTypeSMART, Info: info, LID: capsule.LogSMART}
}

// Events are a controller's held requests, of type R, and its pending events (NVMe base
// 2.0, 5.2). An event that was reported is masked until the host has read its log page,
// which has what happened meanwhile.
type Events[R any] struct {
	held    [MaxEvents]heldRequest[R]
	n       int
	Enabled uint32 // AEC
	pending uint32 // happened, not reported
	masked  uint32 // reported, log page not read
}

type heldRequest[R any] struct {
	cid     capsule.CID
	request R
}

// Hold keeps a request until an event completes it, and reports whether there was room.
func (e *Events[R]) Hold(cid capsule.CID, r R) bool {
	if e.n == MaxEvents {
		return false
	}
	e.held[e.n] = heldRequest[R]{cid, r}
	e.n++
	return true
}

// always are the events that none can disable.
const always = EventFailure | EventReservation

// Enable sets the events that the host has enabled, and returns those that were not. What is pending of
// others is not reported any more.
func (e *Events[R]) Enable(events uint32) (fresh uint32) {
	fresh = events &^ e.Enabled
	e.Enabled = events
	e.pending &= events | always
	return fresh
}

// Raise makes an event pending that the host has enabled.
func (e *Events[R]) Raise(bit uint32) {
	e.pending |= bit & (e.Enabled | always) &^ e.masked
}

// Withdraw makes an event not pending that has nothing to tell any more.
func (e *Events[R]) Withdraw(bit uint32) { e.pending &^= bit }

// Read unmasks the events of a log page.
func (e *Events[R]) Read(lid capsule.LID) {
	for _, k := range kinds {
		if k.event.LID == lid {
			e.masked &^= k.bit
		}
	}
}

// Next removes a held request and a pending event that completes it, if there are both.
func (e *Events[R]) Next() (r R, event capsule.AsyncEvent, ok bool) {
	if e.n == 0 {
		return r, event, false
	}
	for _, k := range kinds {
		if e.pending&k.bit != 0 {
			e.pending &^= k.bit
			e.masked |= k.bit
			return e.pop(0), k.event, true
		}
	}
	return r, event, false
}

// Take removes the held request of a command.
func (e *Events[R]) Take(cid capsule.CID) (r R, ok bool) {
	for i := range e.n {
		if e.held[i].cid == cid {
			return e.pop(i), true
		}
	}
	return r, false
}

// TakeAny removes a held request, the last one first: the controller was reset.
func (e *Events[R]) TakeAny() (r R, ok bool) {
	if e.n == 0 {
		return r, false
	}
	return e.pop(e.n - 1), true
}

// Reset disables all events and drops those pending; it keeps held requests.
func (e *Events[R]) Reset() { e.Enabled, e.pending, e.masked = 0, 0, 0 }

func (e *Events[R]) pop(i int) R {
	r := e.held[i].request
	e.n--
	copy(e.held[i:], e.held[i+1:e.n+1])
	e.held[e.n] = heldRequest[R]{}
	return r
}
