package target

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// TestFailureOfBeforeIsNoEvent: a host that connects, or resets its controller, after a store has failed does not
// get a persistent internal error when something else about a store changes, as the temperature of a drive often
// does: Linux resets the controller after that event, and would do so again and again.
func TestFailureOfBeforeIsNoEvent(t *testing.T) {
	f, s, examine, h := ailing(t)
	s.set(func() { s.failure = errors.New("flush failed") })
	examine()
	warmer := func() {
		s.set(func() {
			s.drive.Known |= backend.HealthTemperature
			s.drive.Temperature++
		})
		examine()
	}
	for what, connect := range map[string]func() *hostQueue{
		"connects": func() *hostQueue {
			late, _ := f.connectAdmin(0)
			return late
		},
		"resets": func() *hostQueue {
			h.setCC(linuxCC)
			h.setCC(linuxCC.WithEnable(true))
			return h
		},
	} {
		late := connect()
		e := late.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
		warmer()
		late.turns(2)
		select {
		case r := <-e.response:
			t.Errorf("a host that %s after the store has failed gets the event %+v", what, capsule.ParseAsyncEvent(uint32(r.result)))
		default:
		}
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	examine()
	late, _ := f.connectAdmin(0)
	e := late.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	s.set(func() { s.failure = errors.New("flush failed again") })
	examine()
	late.wantEvent(e, capsule.AsyncEvent{Type: capsule.EventTypeError, Info: capsule.ErrorPersistentInternal, LID: capsule.LogError})
}

// TestWarningsAreEventsWhenEnabled: NVMe base 2.0, 5.27.1.8: "If the condition for an event is true when the
// corresponding notice is enabled, then an event is sent to the host."
func TestWarningsAreEventsWhenEnabled(t *testing.T) {
	f, s, examine, h := ailing(t)
	s.set(func() { s.free = 0 })
	examine() // no host has enabled the event
	late, _ := f.connectAdmin(0)
	for what, h := range map[string]*hostQueue{"was there": h, "came late": late} {
		e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
		h.enableEvents(capsule.EventSMART)
		h.wantEvent(e, smartNotice(capsule.SMARTSpare))
		if l := h.smart(0); l.CriticalWarning != capsule.WarningSpare {
			t.Errorf("host that %s: warning %#x", what, l.CriticalWarning)
		}
		e = h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
		h.enableEvents(capsule.EventSMART) // it was enabled already
		examine()
		e.wantPending()
		h.enableEvents(0)
		s.set(func() { s.drive = backend.Health{Known: backend.HealthWarning, Warning: backend.WarnVolatile} })
		examine()
		e.wantPending()
		s.set(func() { s.drive = backend.Health{} })
		examine()
	}
}

// TestFailureOfBeforeTheTarget: the same holds for a store that had failed when it was exported, as after a
// takeover, or when another namespace exports it already. That is known before its first examination.
func TestFailureOfBeforeTheTarget(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
	s := &ailingStore{fakeStore: newFakeStore(1 << 20), free: 1 << 30, failure: errors.New("flush failed")}
	ns := f.export(s)
	h, _ := f.connectAdmin(0)
	e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	f.target.examine(ns.ns.Volume, time.Now().Add(storage.AskDrives))
	h.turns(2)
	e.wantPending()
	if w := h.smart(0).CriticalWarning; w != capsule.WarningReliability|capsule.WarningReadOnly {
		t.Errorf("critical warning %#x", w)
	}
}
