package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

func TestConnectAndDisconnect(t *testing.T) {
	for _, active := range []bool{true, false} {
		p := newPair(t, 1)
		id := p.connect()
		p.run(10 * time.Millisecond)
		p.wantEvents(p.a, EventReply)
		p.wantEvents(p.b, EventRequest, EventEstablished)
		if active {
			p.a.Disconnect(p.now, id)
		} else {
			p.b.Disconnect(p.now, p.b.events[0].ID)
		}
		p.run(10 * time.Second)
		ends, reported := []EventKind{EventClosed}, []EventKind{EventDisconnected, EventClosed}
		if !active {
			ends, reported = reported, ends
		}
		p.wantEvents(p.a, append([]EventKind{EventReply}, ends...)...)
		p.wantEvents(p.b, append([]EventKind{EventRequest, EventEstablished}, reported...)...)
		p.wantEmpty()
		if p.a.Counters.Retransmits+p.b.Counters.Retransmits != 0 {
			t.Error("something was sent twice without loss")
		}
	}
}

func TestWhatThePeersLearn(t *testing.T) {
	p := newPair(t, 2)
	p.connect()
	p.run(10 * time.Millisecond)
	got := p.b.events[0]
	want := Peer{Addr: netip.AddrPortFrom(addrA, 50000), Service: wire.TCPService(testPort), GUID: 2, QPN: activeQPN,
		StartingPSN: 0x111111, InitiatorDepth: 16, ResponderResources: 4, RetryCount: 7, RNRRetryCount: 6,
		PathMTU: 3, AckTimeout: 17, TrafficClass: 0x68}
	if got.Peer != want {
		t.Errorf("request: %+v, want\n%+v", got.Peer, want)
	}
	if len(got.PrivateData) != 56 || !bytes.HasPrefix(got.PrivateData, []byte("hello\x00")) {
		t.Errorf("request data %q", got.PrivateData)
	}
	got = p.a.events[0]
	want = Peer{Addr: netip.AddrPortFrom(addrB, testPort), Service: wire.TCPService(testPort), GUID: 3, QPN: passiveQPN,
		StartingPSN: 0x222222, InitiatorDepth: 4, ResponderResources: 8, RetryCount: 7, RNRRetryCount: 7,
		PathMTU: 3, AckTimeout: 17, AckDelay: 15, TrafficClass: 0x68}
	if got.Peer != want {
		t.Errorf("reply: %+v, want\n%+v", got.Peer, want)
	}
	if len(got.PrivateData) != 196 || !bytes.HasPrefix(got.PrivateData, []byte("welcome\x00")) {
		t.Errorf("reply data %q", got.PrivateData)
	}
}

func TestReject(t *testing.T) {
	p := newPair(t, 3)
	p.answer = func(ev Event) {
		if err := p.b.Reject(p.now, ev.ID, rdmatransport.RejectConsumer, []byte{0, 0, 6, 0}); err != nil {
			t.Error(err)
		}
	}
	p.filter = drop(wire.AttrREJ, 1)
	p.connect()
	p.run(time.Minute)
	p.wantEvents(p.a, EventRejected, EventClosed)
	p.wantEvents(p.b, EventRequest, EventClosed)
	ev := p.a.events[0]
	if ev.Reason != rdmatransport.RejectConsumer || len(ev.PrivateData) != 148 || ev.PrivateData[2] != 6 {
		t.Errorf("%+v", ev)
	}
	if p.b.Counters.DuplicateREQ != 1 {
		t.Errorf("%d repeated requests, want 1, answered with the same REJ", p.b.Counters.DuplicateREQ)
	}
	p.wantEmpty()
}

func TestRejectReply(t *testing.T) {
	p := newPair(t, 4)
	p.reply = func(ev Event) {
		if err := p.a.Reject(p.now, ev.ID, rdmatransport.RejectNoResources, nil); err != nil {
			t.Error(err)
		}
	}
	p.connect()
	p.run(time.Minute)
	p.wantEvents(p.a, EventReply, EventClosed)
	p.wantEvents(p.b, EventRequest, EventRejected, EventClosed)
	p.wantEmpty()
}

// Each message is lost the first three times, and the exchange succeeds.
func TestLostMessages(t *testing.T) {
	for _, what := range []wire.AttributeID{wire.AttrREQ, wire.AttrREP, wire.AttrRTU, wire.AttrDREQ, wire.AttrDREP} {
		t.Run(what.String(), func(t *testing.T) {
			p := newPair(t, 5)
			p.filter = drop(what, 3)
			id := p.connect()
			p.run(10 * time.Second)
			p.a.Disconnect(p.now, id)
			p.run(20 * time.Second)
			p.wantEvents(p.a, EventReply, EventClosed)
			p.wantEvents(p.b, EventRequest, EventEstablished, EventDisconnected, EventClosed)
			p.wantEmpty()
			if p.a.Counters.Retransmits+p.b.Counters.Retransmits < 3 {
				t.Error("nothing was repeated")
			}
		})
	}
}

func TestIntervalsOfRepetition(t *testing.T) {
	p := newPair(t, 6)
	var at []time.Duration
	p.filter = func(*end, wire.AttributeID) int { at = append(at, p.now); return 0 }
	p.connect()
	p.run(time.Minute)
	full := wire.Timeout(18).Duration()
	want := []time.Duration{0, full / 4, full/4 + full/2}
	for i := range 15 {
		want = append(want, want[2]+time.Duration(i+1)*full)
	}
	want = append(want, want[len(want)-1]+full) // the REJ
	if len(at) != len(want) {
		t.Fatalf("%d messages, want %d: %v", len(at), len(want), at)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Errorf("message %d sent at %v, want %v", i, at[i], want[i])
		}
	}
	p.wantEvents(p.a, EventUnreachable, EventClosed)
	p.wantEmpty()
}

func TestSilentPeerAfterAccept(t *testing.T) {
	p := newPair(t, 7)
	p.filter = func(from *end, what wire.AttributeID) int {
		if what == wire.AttrREQ {
			return 1
		}
		return 0
	}
	id := p.connect()
	p.run(2 * time.Millisecond)
	p.a.Disconnect(p.now, id) // its REJ is lost
	p.run(time.Minute)
	p.wantEvents(p.b, EventRequest, EventUnreachable, EventClosed)
	p.wantEmpty()
}

// A REJ from a peer that gave up before it learned our communication ID.
func TestWithdrawnRequest(t *testing.T) {
	for _, answered := range []bool{false, true} {
		p := newPair(t, 8)
		p.filter = drop(wire.AttrREP, 100)
		if !answered {
			p.answer = nil
		}
		id := p.connect()
		p.run(5 * time.Millisecond)
		p.a.Disconnect(p.now, id)
		p.run(5 * time.Second)
		p.wantEvents(p.a, EventClosed)
		p.wantEvents(p.b, EventRequest, EventRejected, EventClosed)
		p.wantEmpty()
	}
}

func TestDuplicatesGetTheSameAnswer(t *testing.T) {
	p := newPair(t, 9)
	p.filter = func(*end, wire.AttributeID) int { return 3 }
	id := p.connect()
	p.run(time.Second)
	p.a.Disconnect(p.now, id)
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply, EventClosed)
	p.wantEvents(p.b, EventRequest, EventEstablished, EventDisconnected, EventClosed)
	if p.b.Counters.DuplicateREQ != 2 || p.b.Counters.DuplicateRTU == 0 || p.a.Counters.DuplicateREP == 0 {
		t.Errorf("%+v\n%+v", p.a.Counters, p.b.Counters)
	}
	p.wantEmpty()
}

func TestDataStandsForLostRTU(t *testing.T) {
	p := newPair(t, 10)
	p.filter = drop(wire.AttrRTU, 1000)
	p.connect()
	p.run(5 * time.Millisecond)
	p.b.Established(p.now, p.b.events[0].ID)
	p.run(time.Hour)
	p.wantEvents(p.a, EventReply)
	p.wantEvents(p.b, EventRequest)
	if p.b.Deadline() != Never || p.b.Counters.Retransmits != 0 {
		t.Error("the REP is still repeated")
	}
	p.b.Disconnect(p.now, p.b.events[0].ID)
	p.run(10 * time.Second)
	p.wantEmpty()
}

// A slow application: the peer is asked to wait, and again for each repeated REQ.
func TestSlowAnswer(t *testing.T) {
	p := newPair(t, 11)
	p.answer = nil
	mras := 0
	p.filter = func(_ *end, what wire.AttributeID) int {
		if what == wire.AttrMRA {
			mras++
		}
		return 1
	}
	p.connect()
	p.run(60 * time.Second)
	if mras != 1 || p.a.Counters.Retransmits > 2 {
		t.Errorf("%d MRAs, %d repeated REQs", mras, p.a.Counters.Retransmits)
	}
	p.accept(p.b.events[0].ID)
	p.run(time.Second)
	p.wantEvents(p.a, EventReply)
	p.wantEvents(p.b, EventRequest, EventEstablished)
}

func TestNoAnswerAtAll(t *testing.T) {
	p := newPair(t, 12)
	p.answer = nil
	p.connect()
	p.run(5 * time.Minute)
	p.wantEvents(p.a, EventRejected, EventClosed)
	p.wantEvents(p.b, EventRequest, EventUnreachable, EventClosed)
	if err := p.b.Accept(p.now, p.b.events[0].ID, acceptParams()); !errors.Is(err, ErrGone) {
		t.Errorf("Accept afterwards: %v", err)
	}
	p.wantEmpty()
}

// A slow Confirm: the repeated REPs are answered with MRAs, which stop them.
func TestSlowConfirm(t *testing.T) {
	p := newPair(t, 13)
	p.reply = nil
	id := p.connect()
	p.run(30 * time.Second)
	if p.b.Counters.Retransmits != 1 || p.a.Counters.DuplicateREP != 1 {
		t.Errorf("%d repeated REPs", p.b.Counters.Retransmits)
	}
	if err := p.a.Confirm(p.now, id); err != nil {
		t.Fatal(err)
	}
	p.run(time.Second)
	p.wantEvents(p.b, EventRequest, EventEstablished)
	if err := p.a.Confirm(p.now, id); !errors.Is(err, ErrGone) {
		t.Errorf("second Confirm: %v", err)
	}
}

func TestCrossingDisconnects(t *testing.T) {
	p := newPair(t, 14)
	id := p.connect()
	p.run(time.Second)
	p.a.Disconnect(p.now, id)
	p.b.Disconnect(p.now, p.b.events[0].ID)
	p.b.Disconnect(p.now, p.b.events[0].ID)
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply, EventClosed)
	p.wantEvents(p.b, EventRequest, EventEstablished, EventClosed)
	p.wantEmpty()
}

func TestDisconnectOfADeadPeer(t *testing.T) {
	p := newPair(t, 15)
	id := p.connect()
	p.run(time.Second)
	p.filter = func(*end, wire.AttributeID) int { return 0 }
	p.a.Disconnect(p.now, id)
	p.run(time.Minute)
	p.wantEvents(p.a, EventReply, EventClosed)
	if p.a.Counters.Timeouts != 1 {
		t.Errorf("%d timeouts", p.a.Counters.Timeouts)
	}
}

// The peer has crashed and restarted with the same queue pair number. It gets a new connection, which ends the old
// one.
func TestStaleConnection(t *testing.T) {
	p := newPair(t, 16)
	p.connect()
	p.run(time.Second)
	p.a.Engine = newEngine(addrA, 99, nil)
	p.a.events = nil
	p.connect()
	p.run(time.Second)
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply)
	p.wantEvents(p.b, EventRequest, EventEstablished, EventRequest, EventDisconnected, EventEstablished, EventClosed)
	if p.b.events[3].Reason != rdmatransport.RejectStale || p.b.events[3].ID != p.b.events[0].ID {
		t.Errorf("%+v", p.b.events[3])
	}
}

// The same with the old communication ID, too.
func TestStaleConnectionWithTheSameID(t *testing.T) {
	p := newPair(t, 17)
	p.connect()
	p.run(time.Second)
	p.a.Engine = newEngine(addrA, 17, nil)
	p.a.events = nil
	params := connectParams()
	params.StartingPSN++
	if _, err := p.a.Connect(p.now, params); err != nil {
		t.Fatal(err)
	}
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply)
	p.wantEvents(p.b, EventRequest, EventEstablished, EventRequest, EventDisconnected, EventEstablished, EventClosed)
}

// A target has crashed and answers with a queue pair number to which the host still has a connection.
func TestStaleReply(t *testing.T) {
	p := newPair(t, 18)
	p.connect()
	p.run(time.Second)
	p.b.Engine = newEngine(addrB, 98, nil)
	p.b.events = nil
	params := connectParams()
	params.QPN++
	if _, err := p.a.Connect(p.now, params); err != nil {
		t.Fatal(err)
	}
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply, EventDisconnected, EventRejected, EventClosed, EventClosed)
	p.wantEvents(p.b, EventRequest, EventRejected, EventClosed)
	p.wantEmpty()
}

func TestTimeWaitKeepsTheID(t *testing.T) {
	p := newPair(t, 19)
	var kept []flight
	id := p.connect()
	p.filter = func(from *end, what wire.AttributeID) int { return 1 }
	p.settle()
	kept = append(kept, p.flying...) // the REQ
	p.run(time.Second)
	p.a.Disconnect(p.now, id)
	p.run(10 * time.Millisecond)
	events := len(p.b.events)
	p.b.Receive(p.now, netip.AddrPortFrom(addrA, 1), &kept[0].packet)
	p.run(10 * time.Millisecond)
	if len(p.b.events) != events || p.b.Counters.DuplicateREQ != 1 {
		t.Error("a late REQ in time-wait made a connection")
	}
	p.run(10 * time.Second)
	p.wantEvents(p.a, EventReply, EventClosed)
	p.wantEmpty()
}

// The peer may reuse its queue pair as soon as the old connection has ended on both sides.
func TestQPNReuseInTimeWait(t *testing.T) {
	p := newPair(t, 20)
	id := p.connect()
	p.run(time.Second)
	p.a.Disconnect(p.now, id)
	p.run(10 * time.Millisecond)
	p.connect()
	p.run(10 * time.Millisecond)
	p.wantEvents(p.a, EventReply, EventReply)
}

func TestIPv6(t *testing.T) {
	p := newPair(t, 21)
	a6, b6 := netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fe80::2%eth0")
	a, b := newEngine(a6, 1, nil), newEngine(b6, 2, nil)
	params := connectParams()
	params.To = netip.AddrPortFrom(b6, testPort)
	id, err := a.Connect(0, params)
	if err != nil {
		t.Fatal(err)
	}
	carry := func(from, to *Engine, addr netip.Addr) {
		for {
			s, ok := from.NextSend()
			if !ok {
				return
			}
			to.Receive(p.now, netip.AddrPortFrom(addr, 1), &s.Packet)
		}
	}
	carry(a, b, a6)
	ev, _ := b.NextEvent()
	if ev.Kind != EventRequest || ev.Peer.Addr != netip.AddrPortFrom(a6, 50000) {
		t.Fatalf("%+v", ev)
	}
	if err := b.Accept(0, ev.ID, acceptParams()); err != nil {
		t.Fatal(err)
	}
	carry(b, a, b6)
	if ev, _ := a.NextEvent(); ev.Kind != EventReply {
		t.Fatalf("%+v", ev)
	}
	if err := a.Confirm(p.now, id); err != nil {
		t.Fatal(err)
	}
	carry(a, b, a6)
	if ev, _ := b.NextEvent(); ev.Kind != EventEstablished {
		t.Fatalf("%+v", ev)
	}
}

func TestUnlisten(t *testing.T) {
	p := newPair(t, 22)
	p.b.Unlisten(wire.TCPService(testPort))
	p.connect()
	p.run(time.Second)
	p.wantEvents(p.a, EventRejected, EventClosed)
	if p.a.events[0].Reason != rdmatransport.RejectInvalidServiceID {
		t.Errorf("%v", p.a.events[0].Reason)
	}
}

// TestRejectAll: unanswered requests are rejected once; nothing else is rejected.
func TestRejectAll(t *testing.T) {
	p := newPair(t, 23)
	p.connect()
	p.run(10 * time.Millisecond)
	p.answer = func(Event) {}
	for range 2 {
		p.connect()
	}
	p.run(10 * time.Millisecond)
	p.a.events, p.b.events = nil, nil
	RejectAll(p.b.Engine, p.now, rdmatransport.RejectInvalidServiceID)
	sent := p.b.Counters.Sent
	RejectAll(p.b.Engine, p.now, rdmatransport.RejectInvalidServiceID)
	p.run(10 * time.Millisecond)
	p.wantEvents(p.a, EventRejected, EventClosed, EventRejected, EventClosed)
	for _, ev := range p.a.events {
		if ev.Kind == EventRejected && ev.Reason != rdmatransport.RejectInvalidServiceID {
			t.Errorf("%v", ev.Reason)
		}
	}
	if n := p.b.Counters.Sent - sent; n != 2 {
		t.Errorf("%d messages", n)
	}
}

func TestConnectParamsAreChecked(t *testing.T) {
	e := newEngine(addrA, 1, nil)
	for want, change := range map[error]func(*ConnectParams){
		ErrAddress:     func(p *ConnectParams) { p.To = netip.MustParseAddrPort("[fd00::1]:4420") },
		ErrPrivateData: func(p *ConnectParams) { p.PrivateData = make([]byte, 57) },
		ErrPathMTU:     func(p *ConnectParams) { p.PathMTU = 6 },
	} {
		params := connectParams()
		change(&params)
		if _, err := e.Connect(0, params); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := e.Reject(0, 7, rdmatransport.RejectConsumer, nil); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	wantNothingLeft(t, e)
}

func TestPrivateDataOfAnswersIsBounded(t *testing.T) {
	p := newPair(t, 23)
	p.answer = func(ev Event) {
		params := acceptParams()
		params.PrivateData = make([]byte, 197)
		if err := p.b.Accept(p.now, ev.ID, params); !errors.Is(err, ErrPrivateData) {
			t.Errorf("Accept: %v", err)
		}
		if err := p.b.Reject(p.now, ev.ID, rdmatransport.RejectConsumer, make([]byte, 149)); !errors.Is(err, ErrPrivateData) {
			t.Errorf("Reject: %v", err)
		}
		p.accept(ev.ID)
	}
	p.connect()
	p.run(time.Second)
	p.wantEvents(p.a, EventReply)
}

func TestPSNsCount(t *testing.T) {
	e := newEngine(addrA, 1, func(c *Config) { c.FirstPSN = 0xffffff })
	for range 2 {
		if _, err := e.Connect(0, connectParams()); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []wire.PSN{0xffffff, 0} {
		s, ok := e.NextSend()
		if !ok || s.Packet.PSN != want || s.To != addrB || s.TrafficClass != 0x68 {
			t.Errorf("%+v", s)
		}
	}
}

func TestEventNames(t *testing.T) {
	for k := EventRequest; k <= EventClosed; k++ {
		if k.String() == "" || k.String() == "unknown event" {
			t.Errorf("event %d has no name", k)
		}
	}
	if (EventClosed + 1).String() != "unknown event" {
		t.Error("an unknown event has a name")
	}
}
