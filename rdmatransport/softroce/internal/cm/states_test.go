package cm

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// These tests inject one message in one state and check what changes.

// request makes e receive the request with that ID and queue pair, and returns
// the connection's ID.
func request(t *testing.T, e *Engine, now time.Duration, id wire.CommID, qpn rdmatransport.QPN) wire.CommID {
	t.Helper()
	r := goodREQ(id)
	r.QPN = qpn
	inject(e, now, addrA, &r)
	for {
		ev, ok := e.NextEvent()
		if !ok {
			t.Fatalf("no request event: %+v", e.Counters)
		}
		if ev.Kind == EventRequest {
			return ev.ID
		}
	}
}

func wantState(t *testing.T, e *Engine, id wire.CommID, want state) {
	t.Helper()
	if c := e.lookup(id); c == nil || c.state != want {
		t.Errorf("connection %+v, want state %d", c, want)
	}
}

func wantOneEvent(t *testing.T, e *Engine, want EventKind) {
	t.Helper()
	if ev, ok := e.NextEvent(); !ok || ev.Kind != want {
		t.Errorf("event %v, want %v", ev.Kind, want)
	}
	if ev, ok := e.NextEvent(); ok {
		t.Errorf("a second event: %v", ev.Kind)
	}
}

func TestNothingIsRepeatedAfterTheReply(t *testing.T) {
	e := newEngine(addrA, 2, nil)
	id, err := e.Connect(0, connectParams())
	if err != nil {
		t.Fatal(err)
	}
	rep := goodREP(id)
	inject(e, 0, addrB, &rep)
	if e.Deadline() != Never {
		t.Errorf("deadline %v", e.Deadline())
	}
}

func TestRepeatedREQGetsTheSameREP(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := request(t, e, 0, 7, activeQPN)
	if err := e.Accept(0, id, acceptParams()); err != nil {
		t.Fatal(err)
	}
	_, first := takeSends(t, e)
	r := goodREQ(7)
	inject(e, 0, addrA, &r)
	_, again := takeSends(t, e)
	if len(first) != 1 || len(again) != 1 || *first[0] != *again[0] {
		t.Errorf("%d and %d answers", len(first), len(again))
	}
	wantSilence(t, e)
}

func TestRefusedPeerMayAskAgain(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := request(t, e, 0, 7, activeQPN)
	if err := e.Reject(0, id, rdmatransport.RejectConsumer, nil); err != nil {
		t.Fatal(err)
	}
	if again := request(t, e, 0, 8, activeQPN); again == id {
		t.Error("the refused connection was used again")
	}
	// With the same communication ID but other contents it is another request.
	r := goodREQ(8)
	wantState(t, e, id, refused)
	r.LocalID, r.StartingPSN, r.QPN = 7, 5, 0x300
	inject(e, 0, addrA, &r)
	wantOneEvent(t, e, EventRequest)
}

func TestRefusedRequestsAreEvictedSilently(t *testing.T) {
	e := newEngine(addrB, 2, func(c *Config) { c.MaxHalfOpenPerPeer = 2 })
	for i := range 10 {
		id := request(t, e, 0, wire.CommID(7+i), rdmatransport.QPN(100+i))
		if err := e.Reject(0, id, rdmatransport.RejectConsumer, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, mads := takeSends(t, e); len(mads) != 10 || e.Connections() != 2 {
		t.Errorf("%d REJs, %d connections", len(mads), e.Connections())
	}
}

// The end of a connection does not remove the table entry of a newer one with the same queue pair or communication
// ID.
func TestOldConnectionLeavesTheNewAlone(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	old := establish(t, e)
	inject(e, 0, addrA, &wire.DREQ{LocalID: 7, RemoteID: old, RemoteQPN: passiveQPN})
	wantOneEvent(t, e, EventDisconnected)
	r := goodREQ(7)
	r.StartingPSN++ // a new request in spite of the same ID and queue pair
	inject(e, time.Millisecond, addrA, &r)
	ev, _ := e.NextEvent()
	if ev.Kind != EventRequest {
		t.Fatal(ev.Kind)
	}
	if err := e.Accept(time.Millisecond, ev.ID, acceptParams()); err != nil {
		t.Fatal(err)
	}
	inject(e, time.Millisecond, addrA, &wire.RTU{LocalID: 7, RemoteID: ev.ID})
	wantOneEvent(t, e, EventEstablished)
	takeSends(t, e)
	e.Timeout(200 * time.Millisecond) // time-wait is over: twice 67 ms
	takeSends(t, e)
	wantOneEvent(t, e, EventClosed)
	if e.remoteIDs[remoteID{addrA, 7}] == nil || e.remoteQPNs[remoteQPN{addrA, activeQPN}] == nil {
		t.Error("the new connection lost its entries")
	}
	wantState(t, e, ev.ID, established)
}

func TestRejectAfterMRANamesBothIDs(t *testing.T) {
	for _, late := range []bool{false, true} {
		e := newEngine(addrB, 2, nil)
		id := request(t, e, 0, 7, activeQPN)
		want := wire.CommID(0)
		if late {
			e.Timeout(5 * time.Second)
			want = id
			if headers, _ := takeSends(t, e); len(headers) != 1 || headers[0].Attribute != wire.AttrMRA {
				t.Fatalf("sent %v", headers)
			}
		}
		if err := e.Reject(5*time.Second, id, rdmatransport.RejectConsumer, nil); err != nil {
			t.Fatal(err)
		}
		_, mads := takeSends(t, e)
		var rej wire.REJ
		rej.Parse(mads[0])
		if rej.LocalID != want || rej.RemoteID != 7 || rej.Message != wire.MessageREQ {
			t.Errorf("late %v: %+v", late, rej)
		}
	}
}

func TestREJWithoutOurIDEndsOnlyExchanges(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := establish(t, e)
	inject(e, 0, addrA, &wire.REJ{LocalID: 7, Reason: rdmatransport.RejectTimeout})
	wantSilence(t, e)
	wantState(t, e, id, established)
}

func TestREJEndsAConnection(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := establish(t, e)
	inject(e, 0, addrA, &wire.REJ{LocalID: 7, RemoteID: id, Reason: rdmatransport.RejectTimeout})
	wantOneEvent(t, e, EventDisconnected)
	wantState(t, e, id, timeWait)
	inject(e, 0, addrA, &wire.REJ{LocalID: 7, RemoteID: id})
	wantSilence(t, e)
	if e.Counters.WrongState != 1 {
		t.Errorf("%+v", e.Counters)
	}
}

func TestAnswersToDREQ(t *testing.T) {
	for _, msg := range []putter{
		&wire.DREP{LocalID: 7}, &wire.REJ{LocalID: 7}, &wire.DREQ{LocalID: 7, RemoteQPN: passiveQPN},
	} {
		e := newEngine(addrB, 2, nil)
		id := establish(t, e)
		e.Disconnect(0, id)
		wantState(t, e, id, dreqSent)
		switch m := msg.(type) {
		case *wire.DREP:
			m.RemoteID = id
		case *wire.REJ:
			m.RemoteID = id
		case *wire.DREQ:
			m.RemoteID = id
		}
		inject(e, 0, addrA, msg)
		wantState(t, e, id, timeWait)
		if ev, ok := e.NextEvent(); ok {
			t.Errorf("%T: event %v for what the caller did itself", msg, ev.Kind)
		}
	}
}

func TestStaleRequestWhileDisconnecting(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := establish(t, e)
	e.Disconnect(0, id)
	takeSends(t, e)
	newer := request(t, e, 0, 8, activeQPN)
	if err := e.Accept(0, newer, acceptParams()); err != nil {
		t.Fatal(err)
	}
	takeSends(t, e)
	wantState(t, e, id, dreqSent)
	inject(e, 0, addrA, &wire.RTU{LocalID: 8, RemoteID: newer})
	wantOneEvent(t, e, EventEstablished)
	wantState(t, e, id, timeWait)
}

// Data takes the place of an RTU, but not if that would end another connection.
func TestDataDoesNotReplace(t *testing.T) {
	for _, ids := range [][2]uint32{{7, uint32(activeQPN) + 1}, {8, uint32(activeQPN)}} {
		e := newEngine(addrB, 2, nil)
		old := establish(t, e)
		newer := request(t, e, 0, wire.CommID(ids[0]), rdmatransport.QPN(ids[1]))
		if err := e.Accept(0, newer, acceptParams()); err != nil {
			t.Fatal(err)
		}
		takeSends(t, e)
		e.Established(0, newer)
		wantState(t, e, newer, repSent)
		wantState(t, e, old, established)
		e.Timeout(time.Second)
		if headers, _ := takeSends(t, e); len(headers) == 0 || headers[0].Attribute != wire.AttrREP {
			t.Errorf("sent %v, want the REP again", headers)
		}
		inject(e, 0, addrA, &wire.RTU{LocalID: 99, RemoteID: newer}) // not the ID of its REQ
		wantSilence(t, e)
		wantState(t, e, newer, repSent)
		inject(e, 0, addrA, &wire.RTU{LocalID: wire.CommID(ids[0]), RemoteID: newer})
		wantState(t, e, newer, established)
		wantState(t, e, old, timeWait)
		if e.Counters.Contested != 1 || e.Counters.Stale != 1 {
			t.Errorf("%+v", e.Counters)
		}
		for _, want := range []EventKind{EventDisconnected, EventEstablished} {
			if ev, _ := e.NextEvent(); ev.Kind != want {
				t.Errorf("event %v, want %v", ev.Kind, want)
			}
		}
	}
}

// Unconfirmed exchanges replace each other under one communication ID, and end no established connection.
func TestContestedOverAndOver(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	old := establish(t, e)
	for i := range rdmatransport.QPN(1000) {
		id := request(t, e, 0, 7, activeQPN+1+i)
		if err := e.Accept(0, id, acceptParams()); err != nil {
			t.Fatal(err)
		}
		takeSends(t, e)
		for ev, ok := e.NextEvent(); ok; ev, ok = e.NextEvent() {
			if ev.ID == old {
				t.Fatal(ev.Kind)
			}
		}
		if n := e.Connections(); n > 2 {
			t.Fatalf("%d connections", n)
		}
	}
	wantState(t, e, old, established)
}

func TestDREQWithAnotherIDEndsNothing(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := establish(t, e)
	inject(e, 0, addrA, &wire.DREQ{LocalID: 99, RemoteID: id})
	if headers, _ := takeSends(t, e); len(headers) != 1 || headers[0].Attribute != wire.AttrDREP {
		t.Errorf("sent %v", headers)
	}
	wantSilence(t, e)
	wantState(t, e, id, established)
}

// A REQ that is repeated after the connection was established is ignored.
func TestLateREQ(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := establish(t, e)
	r := goodREQ(7)
	inject(e, 0, addrA, &r)
	wantSilence(t, e)
	wantState(t, e, id, established)
	if e.Counters.DuplicateREQ != 1 {
		t.Errorf("%+v", e.Counters)
	}
}
