package host

import (
	"cmp"
	"context"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// events keeps one Asynchronous Event Request outstanding. The next is sent
// when the user's function has returned, so that no event waits anywhere but in
// the controller.
type events struct {
	request fabric.Request
	arrived chan capsule.AsyncEvent
}

// wantedEvents are those that a host can act on.
const wantedEvents = capsule.EventNamespaceAttribute | capsule.EventANAChange | capsule.EventDiscoveryChange

// eventMask is what to ask the controller for. Every I/O controller tells of its
// health; OAES has the others.
func (c *Controller) eventMask() uint32 {
	can := c.identify.OAES
	if c.identify.CNTRLTYPE != capsule.ControllerTypeDiscovery {
		can |= capsule.EventSMART
	}
	return cmp.Or(c.options.EventMask, wantedEvents) & can
}

func (c *Controller) startEvents(ctx context.Context) error {
	if c.options.Event == nil && c.options.Events == nil {
		return nil
	}
	if mask := c.eventMask(); mask != 0 {
		if err := c.Features().SetEventConfig(ctx, mask); err != nil {
			return err
		}
	}
	e := &c.events
	e.arrived = make(chan capsule.AsyncEvent, 1)
	e.request = fabric.Request{
		Command: capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent)},
		Patient: true, Done: c.eventArrived,
	}
	go c.tellEvents() // owned by the controller; ends when it is lost
	return nil
}

// eventArrived is called in the loop.
func (c *Controller) eventArrived(r *fabric.Request) {
	if r.Err == nil && r.Completion.Status.OK() {
		c.events.arrived <- capsule.ParseAsyncEvent(r.Completion.DW0()) // has room: one at a time
	}
}

func (c *Controller) tellEvents() {
	l := c.admin
	var p pace
	for l.shard.Do(func() { l.queue.Submit(&c.events.request) }) {
		select {
		case e := <-c.events.arrived:
			c.tell(e)
		case <-c.done:
			return
		}
		if d := p.took(time.Now()); d > 0 {
			select {
			case <-time.After(d):
			case <-c.done:
				return
			}
		}
	}
}

// Events come as fast as a controller sends them for a burst, and then one each
// eventPause: others wait in the controller, which sends none of a kind twice before its
// log was read.
const (
	eventBurst = 32
	eventPause = 50 * time.Millisecond
)

// A pace bounds how often something happens.
type pace struct {
	room int // of the burst
	last time.Time
}

// took notes that it has happened, and returns how long to wait with the next.
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

func (c *Controller) tell(e capsule.AsyncEvent) {
	if c.options.Event != nil {
		c.options.Event(e)
	}
	if c.options.Events != nil {
		select {
		case c.options.Events <- e:
		case <-c.done:
		}
	}
}

// An EventKind is what an asynchronous event is about. The controller does not repeat
// it until its log page, [capsule.AsyncEvent.LID], has been read.
type EventKind uint8

const (
	EventOther        EventKind = iota // of the vendor, or new
	EventFault                         // the controller had an error: error log
	EventHealth                        // a critical warning began: SMART log
	EventNamespaces                    // namespaces came, went or changed: changed namespaces log
	EventFirmware                      // firmware is about to be activated: firmware log
	EventTelemetry                     // telemetry log
	EventANA                           // states of access changed: ANA log
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

// notices are the informations of that type of event.
var notices = map[uint8]EventKind{
	capsule.NoticeNamespaceChanged: EventNamespaces, capsule.NoticeFirmwareActivation: EventFirmware,
	capsule.NoticeTelemetryChanged: EventTelemetry, capsule.NoticeANAChange: EventANA,
	capsule.NoticeDiscoveryChange: EventDiscovery,
}

// KindOf tells what an event is about (NVMe base 2.0, 5.2.1).
func KindOf(e capsule.AsyncEvent) EventKind {
	switch e.Type {
	case capsule.EventTypeError:
		return EventFault
	case capsule.EventTypeSMART:
		return EventHealth
	case capsule.EventTypeNotice:
		return notices[e.Info] // EventOther where it is none of them
	case capsule.EventTypeIOSet:
		if e.Info == capsule.EventReservationLog {
			return EventReservations
		}
	}
	return EventOther
}
