package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestKindOf(t *testing.T) {
	for e, want := range map[capsule.AsyncEvent]EventKind{
		{Type: capsule.EventTypeError, Info: capsule.ErrorTransientInternal}:    EventFault,
		{Type: capsule.EventTypeSMART, Info: capsule.SMARTTemperature}:          EventHealth,
		{Type: capsule.EventTypeNotice, Info: capsule.NoticeNamespaceChanged}:   EventNamespaces,
		{Type: capsule.EventTypeNotice, Info: capsule.NoticeFirmwareActivation}: EventFirmware,
		{Type: capsule.EventTypeNotice, Info: capsule.NoticeTelemetryChanged}:   EventTelemetry,
		{Type: capsule.EventTypeNotice, Info: capsule.NoticeANAChange}:          EventANA,
		{Type: capsule.EventTypeNotice, Info: capsule.NoticeDiscoveryChange}:    EventDiscovery,
		{Type: capsule.EventTypeNotice, Info: 0x77}:                             EventOther,
		{Type: capsule.EventTypeIOSet, Info: capsule.EventReservationLog}:       EventReservations,
		{Type: capsule.EventTypeIOSet, Info: 9}:                                 EventOther,
		{Type: capsule.EventTypeVendor}:                                         EventOther,
	} {
		if got := KindOf(e); got != want {
			t.Errorf("%+v is %v, want %v", e, got, want)
		}
	}
	if EventKind(200).String() != "other event" || EventANA.String() != "ANA states changed" {
		t.Errorf("%v, %v", EventKind(200), EventANA)
	}
}

// TestReservationEvents: a host that loses a reservation is notified. Events that are not received wait, and do not
// prevent a disconnect.
func TestReservationEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		events := make(chan capsule.AsyncEvent)
		o := r.options()
		o.Events, o.HostNQN, o.HostID = events, "nqn.2014-08.org.example:other", capsule.HostID{1}
		c := r.connect(o)
		a, b := r.namespace(c), r.namespace(r.connect(r.options()))
		ctx, kind := context.Background(), capsule.ReservationWriteExclusive
		take := func(n *Namespace, key capsule.ReservationKey) {
			t.Helper()
			if err := n.Reservations().Register(ctx, key, RegisterOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			take(a, 1)
			if err := a.Reservations().Acquire(ctx, 1, kind); err != nil {
				t.Fatal(err)
			}
			take(b, 2)
			if err := b.Reservations().Preempt(ctx, 2, 1, kind, false); err != nil {
				t.Fatal(err)
			}
			e := <-events
			if KindOf(e) != EventReservations {
				t.Errorf("event %+v", e)
			}
			page := make([]byte, capsule.ReservationLogSize)
			for left := true; left; {
				if err := c.Logs().Read(ctx, 0, capsule.GetLogPage{LID: e.LID}, page); err != nil {
					t.Fatal(err)
				}
				log, err := capsule.DecodeReservationLog(page)
				if err != nil || log.NSID != 1 {
					t.Fatalf("log %+v, %v", log, err)
				}
				left = log.Available > 0
			}
			if err := b.Reservations().Clear(ctx, 2); err != nil {
				t.Fatal(err)
			}
		}
		take(a, 1)
		take(b, 2)
		if err := b.Reservations().Clear(ctx, 2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // this event is not received
		if err := c.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestEventRefused: a failed Asynchronous Event Request is sent again, at increasing intervals, unless the controller
// says that it will always fail.
func TestEventRefused(t *testing.T) {
	for _, tt := range []struct {
		status capsule.Status
		least  int // requests in a minute
		most   int
	}{
		{capsule.StatusCommandInterrupted, 8, 20},
		{capsule.StatusInvalidOpcode | capsule.StatusDNR, 1, 1},
	} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(id *capsule.IdentifyController) { id.OAES = capsule.EventANAChange }
			requests, refused := 0, true // owned by the loop
			l.refuse = func(c *capsule.Command) capsule.Status {
				if c.Opcode != capsule.Opcode(capsule.AdminAsyncEvent) || !refused {
					return 0
				}
				requests++
				return tt.status
			}
			l.event = func() (capsule.AsyncEvent, bool) {
				return capsule.AsyncEvent{Type: capsule.EventTypeNotice, Info: capsule.NoticeANAChange}, true
			}
			o, events := l.options(), make(chan capsule.AsyncEvent)
			o.Events = events
			if _, err := l.host.Connect(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			l.shard.Call(func() {
				if requests < tt.least || requests > tt.most {
					t.Errorf("%v: %d requests, want %d to %d", tt.status, requests, tt.least, tt.most)
				}
				refused = false
			})
			select {
			case e := <-events:
				if tt.most == 1 || KindOf(e) != EventANA {
					t.Errorf("%v: event %+v", tt.status, e)
				}
			case <-time.After(time.Minute):
				if tt.most > 1 {
					t.Errorf("%v: no event", tt.status)
				}
			}
		})
	}
}

// TestEventMask: events are enabled that are requested and supported.
func TestEventMask(t *testing.T) {
	for _, c := range []struct {
		oaes, mask, want uint32
		kind             capsule.ControllerType
	}{
		{0, 0, 0, capsule.ControllerTypeIO},
		{0xffffffff, 0, wantedEvents, capsule.ControllerTypeIO},
		{capsule.EventANAChange, capsule.EventSMART | capsule.EventANAChange | capsule.EventFirmwareActivation, capsule.EventSMART | capsule.EventANAChange, capsule.ControllerTypeIO},
		{capsule.EventDiscoveryChange, capsule.EventSMART, 0, capsule.ControllerTypeDiscovery},
		{capsule.EventDiscoveryChange, 0, capsule.EventDiscoveryChange, capsule.ControllerTypeDiscovery},
	} {
		id := capsule.IdentifyController{OAES: c.oaes, CNTRLTYPE: c.kind}
		if got := eventMask(&id, c.mask); got != c.want {
			t.Errorf("OAES %#x, requested %#x: %#x, want %#x", c.oaes, c.mask, got, c.want)
		}
	}
}
