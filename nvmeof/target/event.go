package target

import "github.com/nvmeof-go/nvmeof/capsule"

// maxEvents is how many Asynchronous Event Requests a controller holds; AERL is
// one less.
const maxEvents = 4

// supportedEvents is OAES of I/O controllers, and of discovery controllers.
const (
	// eventFailure stands for an error event, which no host can switch off: a
	// namespace takes no writes any more. The bit has no meaning in AEC.
	eventFailure uint32 = 1 << 16

	supportedEvents          = capsule.EventNamespaceAttribute | capsule.EventANAChange
	supportedDiscoveryEvents = capsule.EventDiscoveryChange
)

// A notice is one kind of event that the target can report.
type notice struct {
	bit   uint32 // in AEC
	event capsule.AsyncEvent
}

var notices = [...]notice{
	{capsule.EventNamespaceAttribute, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeNamespaceChanged, LID: capsule.LogChangedNamespaces}},
	{capsule.EventANAChange, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeANAChange, LID: capsule.LogANA}},
	{capsule.EventDiscoveryChange, capsule.AsyncEvent{Type: capsule.EventTypeNotice,
		Info: capsule.NoticeDiscoveryChange, LID: capsule.LogDiscovery}},
	{eventReservation, capsule.AsyncEvent{Type: capsule.EventTypeIOSet,
		Info: capsule.EventReservationLog, LID: capsule.LogReservation}},

	{eventFailure, capsule.AsyncEvent{Type: capsule.EventTypeError,
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

// events are a controller's held requests and what they wait for (NVMe base
// 2.0, 5.2). An event that was reported is masked until the host has read its
// log page; what happens meanwhile is in the page that it reads.
type events struct {
	held    [maxEvents]*request
	n       int
	enabled uint32 // AEC
	pending uint32 // happened, not reported
	masked  uint32 // reported, log page not read
}

// hold keeps a request until an event completes it, and reports whether there
// was room.
func (e *events) hold(r *request) bool {
	if e.n == maxEvents {
		return false
	}
	e.held[e.n] = r
	e.n++
	return true
}

// raise notes an event that the host asked to hear of.
func (e *events) raise(bit uint32) {
	e.pending |= bit & (e.enabled | eventFailure | eventReservation) &^ e.masked
}

// read re-arms the events of a log page.
func (e *events) read(lid capsule.LID) {
	for _, n := range notices {
		if n.event.LID == lid {
			e.masked &^= n.bit
		}
	}
}

// next returns a held request and the event to complete it with, or nil.
func (e *events) next() (*request, capsule.AsyncEvent) {
	if e.n == 0 {
		return nil, capsule.AsyncEvent{}
	}
	for _, n := range notices {
		if e.pending&n.bit != 0 {
			e.pending &^= n.bit
			e.masked |= n.bit
			return e.pop(0), n.event
		}
	}
	return nil, capsule.AsyncEvent{}
}

// take removes the held request of a command, or returns nil.
func (e *events) take(cid capsule.CID) *request {
	for i := range e.n {
		if e.held[i].cmd.CID == cid {
			return e.pop(i)
		}
	}
	return nil
}

// takeAny removes a held request, or returns nil: the controller was reset.
func (e *events) takeAny() *request {
	if e.n == 0 {
		return nil
	}
	return e.pop(e.n - 1)
}

func (e *events) pop(i int) *request {
	r := e.held[i]
	e.n--
	copy(e.held[i:], e.held[i+1:e.n+1])
	e.held[e.n] = nil
	return r
}
