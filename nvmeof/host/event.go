package host

import (
	"cmp"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// events keeps one Asynchronous Event Request outstanding. It sends the next one when the user's function has returned,
// so that events are queued only in the controller.
type events struct {
	admin   *association.Queue
	done    <-chan struct{} // closed when the controller is lost
	call    func(capsule.AsyncEvent)
	to      chan<- capsule.AsyncEvent
	request fabric.Request
	arrived chan capsule.AsyncEvent
	refused chan struct{} // the request failed, but may be sent again
}

// wantedEvents are the events enabled by default: those that a host can act on.
const wantedEvents = capsule.EventNamespaceAttribute | capsule.EventANAChange | capsule.EventDiscoveryChange

// eventMask returns the events to enable; want = 0 selects the default. Every I/O controller can report its health;
// OAES has the other events that it supports.
func eventMask(id *capsule.IdentifyController, want uint32) uint32 {
	can := id.OAES
	if id.CNTRLTYPE != capsule.ControllerTypeDiscovery {
		can |= capsule.EventSMART
	}
	return cmp.Or(want, wantedEvents) & can
}

// receive keeps one request outstanding and delivers the events. It ends if the controller says that requests always
// fail (Do Not Retry).
func (e *events) receive() {
	e.request = fabric.Request{
		Command: capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent)},
		Patient: true, Done: e.answered,
	}
	var p pace
	retry := firstEventRetry
	for e.admin.Shard.Do(func() { e.admin.Fabric.Submit(&e.request) }) {
		var wait time.Duration
		select {
		case event := <-e.arrived:
			e.deliver(event)
			wait, retry = p.took(time.Now()), firstEventRetry
		case <-e.refused:
			wait, retry = retry, min(2*retry, lastEventRetry)
		case <-e.done:
			return
		}
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-e.done:
				return
			}
		}
	}
}

// A failed request is sent again after firstEventRetry. Each further pause is twice as long, up to lastEventRetry.
const (
	firstEventRetry = 100 * time.Millisecond
	lastEventRetry  = 10 * time.Second
)

// answered runs in the loop. Neither channel blocks, since only one request is outstanding at a time.
func (e *events) answered(r *fabric.Request) {
	switch status := r.Completion.Status; {
	case r.Err != nil: // the controller is lost
	case status.OK():
		e.arrived <- capsule.ParseAsyncEvent(r.Completion.DW0())
	case !status.DNR():
		e.refused <- struct{}{}
	}
}

func (e *events) deliver(event capsule.AsyncEvent) {
	if e.call != nil {
		e.call(event)
	}
	if e.to != nil {
		select {
		case e.to <- event:
		case <-e.done:
		}
	}
}

// A burst of events is received as fast as the controller sends them; after it, one per eventPause. Further events wait
// in the controller, which does not repeat an event until its log page has been read.
const (
	eventBurst = 32
	eventPause = 50 * time.Millisecond
)

// A pace limits the rate of events.
type pace struct {
	room int // events left of the burst
	last time.Time
}

// took records one event, and returns how long to wait before the next one.
func (p *pace) took(now time.Time) time.Duration {
	if gained := now.Sub(p.last) / eventPause; p.last.IsZero() || gained >= eventBurst {
		p.room, p.last = eventBurst, now
	} else {
		p.room, p.last = min(eventBurst, p.room+int(gained)), p.last.Add(gained*eventPause)
	}
	if p.room--; p.room >= 0 {
		return 0
	}
	return p.last.Add(time.Duration(-p.room) * eventPause).Sub(now)
}

// An EventKind is the subject of an asynchronous event. The controller does not report it again until its log page,
// [capsule.AsyncEvent.LID], has been read.
type EventKind uint8

const (
	EventOther        EventKind = iota // vendor specific, or unknown
	EventFault                         // the controller had an error: error log
	EventHealth                        // a critical warning began: SMART log
	EventNamespaces                    // namespaces were added, removed or changed: changed namespaces log
	EventFirmware                      // firmware is about to be activated: firmware log
	EventTelemetry                     // telemetry log
	EventANA                           // ANA states changed: ANA log
	EventDiscovery                     // discovery log
	EventReservations                  // reservation notification log
)

var eventNames = [...]string{
	EventOther: "other event", EventFault: "controller error", EventHealth: "health warning",
	EventNamespaces: "namespaces changed", EventFirmware: "firmware activation", EventTelemetry: "telemetry changed",
	EventANA: "ANA states changed", EventDiscovery: "discovery log changed", EventReservations: "reservation notice",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return eventNames[EventOther]
}

// notices maps the information of a Notice event to its kind.
var notices = map[uint8]EventKind{
	capsule.NoticeNamespaceChanged: EventNamespaces, capsule.NoticeFirmwareActivation: EventFirmware,
	capsule.NoticeTelemetryChanged: EventTelemetry, capsule.NoticeANAChange: EventANA,
	capsule.NoticeDiscoveryChange: EventDiscovery,
}

// KindOf returns the kind of an event (NVMe base 2.0, 5.2.1).
func KindOf(e capsule.AsyncEvent) EventKind {
	switch e.Type {
	case capsule.EventTypeError:
		return EventFault
	case capsule.EventTypeSMART:
		return EventHealth
	case capsule.EventTypeNotice:
		return notices[e.Info] // EventOther if unknown
	case capsule.EventTypeIOSet:
		if e.Info == capsule.EventReservationLog {
			return EventReservations
		}
	}
	return EventOther
}
