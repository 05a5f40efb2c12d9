package state

import (
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestEventsAreMasked: an event that was reported is not reported again before its log page was read.
func TestEventsAreMasked(t *testing.T) {
	var e Events[int]
	for i := range MaxEvents {
		if !e.Hold(capsule.CID(i), i) {
			t.Fatal("no room for request", i)
		}
	}
	if e.Hold(9, 9) {
		t.Error("more requests are held than AERL allows")
	}
	want := func(what string, lid capsule.LID) {
		t.Helper()
		if _, got, ok := e.Next(); ok != (lid != 0) || got.LID != lid {
			t.Errorf("%s: event %+v", what, got)
		}
	}
	e.Raise(capsule.EventNamespaceAttribute)
	want("not enabled", 0)
	e.Enabled = SupportedEvents
	e.Raise(capsule.EventNamespaceAttribute)
	want("enabled", capsule.LogChangedNamespaces)
	e.Raise(capsule.EventNamespaceAttribute)
	want("page not read", 0)
	e.Read(capsule.LogChangedNamespaces)
	e.Raise(capsule.EventNamespaceAttribute)
	want("page read", capsule.LogChangedNamespaces)
	e.Reset()
	e.Raise(EventFailure)
	want("what none can switch off", capsule.LogError)
}

func TestHeldRequestsAreTaken(t *testing.T) {
	var e Events[string]
	for i, name := range []string{"a", "b", "c"} {
		e.Hold(capsule.CID(i), name)
	}
	if r, ok := e.Take(1); !ok || r != "b" {
		t.Errorf("command 1 is %q", r)
	}
	if _, ok := e.Take(1); ok {
		t.Error("a command is taken twice")
	}
	var all string
	for r, ok := e.TakeAny(); ok; r, ok = e.TakeAny() {
		all += r
	}
	if all != "ca" {
		t.Errorf("left are %q", all)
	}
}

// TestReservationLogsTwoReads: two overlapping reads of the log remove the page that both have returned, and no
// other.
func TestReservationLogsTwoReads(t *testing.T) {
	var l ReservationLogs
	for id := capsule.NSID(1); id <= 3; id++ {
		l.Add(id, capsule.NoticeReservationReleased)
	}
	next := func() capsule.NSID {
		t.Helper()
		b := make([]byte, capsule.ReservationLogSize)
		l.Encode(b)
		p, err := capsule.DecodeReservationLog(b)
		if err != nil {
			t.Fatal(err)
		}
		return p.NSID
	}
	if a, b := next(), next(); a != 1 || b != 1 {
		t.Errorf("pages of %d and %d, want 1", a, b)
	}
	first, second := l.Read(), l.Read() // of the two overlapping reads
	if !first || !second || next() != 2 {
		t.Error("a page that nobody has read is dropped")
	}
	if l.Drop(2) || !l.Read() || next() != 3 {
		t.Error("the read of a page that was dropped meanwhile drops another")
	}
	if !l.Drop(3) || next() != 0 || l.Read() {
		t.Error("there is a page left")
	}
}

// TestReservationLogsOverflow: notices without room are counted.
func TestReservationLogsOverflow(t *testing.T) {
	var l ReservationLogs
	l.SetMask(2, 1<<capsule.NoticeReservationReleased)
	if l.Add(2, capsule.NoticeReservationReleased) || !l.Add(2, capsule.NoticeReservationPreempted) || l.Mask(2) == 0 || l.Mask(1) != 0 {
		t.Error("the mask of a namespace does not count for it alone")
	}
	for range maxReservationLogs + 9 {
		l.Add(1, capsule.NoticeReservationReleased)
	}
	for i := range maxReservationLogs {
		b := make([]byte, capsule.ReservationLogSize)
		l.Encode(b)
		p, err := capsule.DecodeReservationLog(b)
		if err != nil || p.Count != uint64(i+1) || int(p.Available) != maxReservationLogs-1-i {
			t.Fatalf("page %d is %+v, %v", i, p, err)
		}
		if l.Read() != (i < maxReservationLogs-1) {
			t.Fatalf("after page %d", i)
		}
	}
	b := make([]byte, capsule.ReservationLogSize)
	if l.Encode(b); b[0] != 0 || l.Read() {
		t.Error("there is a page after the last")
	}
}

// TestEventsDisabled: events that are disabled before they are reported are dropped, except those that cannot be
// disabled.
func TestEventsDisabled(t *testing.T) {
	var e Events[int]
	if fresh := e.Enable(SupportedEvents); fresh != SupportedEvents {
		t.Errorf("fresh are %#x", fresh)
	}
	e.Raise(capsule.EventNamespaceAttribute | capsule.EventANAChange | EventReservation)
	if fresh := e.Enable(capsule.EventANAChange | capsule.EventSMART); fresh != capsule.EventSMART {
		t.Errorf("fresh are %#x", fresh)
	}
	var got []capsule.LID
	for i := range MaxEvents {
		e.Hold(capsule.CID(i), i)
		if _, x, ok := e.Next(); ok {
			got = append(got, x.LID)
		}
	}
	if want := []capsule.LID{capsule.LogANA, capsule.LogReservation}; !slices.Equal(got, want) {
		t.Errorf("reported are %v, want %v", got, want)
	}
}
