package cm

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// move replaces an end's engine by another one that has only the exported state, encoded as JSON.
func (p *pair) move(x *end) {
	p.t.Helper()
	p.settle()
	s := Export(x.Engine)
	b, err := json.Marshal(&s)
	if err != nil {
		p.t.Fatal(err)
	}
	var again Exported
	if err := json.Unmarshal(b, &again); err != nil {
		p.t.Fatal(err)
	}
	if err := again.Check(x.addr); err != nil {
		p.t.Fatal(err)
	}
	x.Engine = newEngine(x.addr, 99, func(c *Config) {
		c.GUID, c.TransactionHigh, c.FirstPSN = again.GUID, again.TransactionHigh, again.PSN
	})
	if err := again.Restore(p.now, x.Engine); err != nil {
		p.t.Fatal(err)
	}
}

// TestMoveEstablished: connections continue from engine to engine, and can be ended by either side.
func TestMoveEstablished(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *pair, id wire.CommID)
	}{
		{"the peer ends it", func(p *pair, id wire.CommID) { p.a.Disconnect(p.now, id) }},
		{"we end it", func(p *pair, _ wire.CommID) { p.b.Disconnect(p.now, p.b.events[0].ID) }},
		{"we have sent a DREQ, which is lost", func(p *pair, _ wire.CommID) {
			p.filter = drop(wire.AttrDREQ, 1)
			p.b.Disconnect(p.now, p.b.events[0].ID)
			p.move(p.b)
		}},
		{"both end it", func(p *pair, id wire.CommID) {
			p.a.Disconnect(p.now, id)
			p.b.Disconnect(p.now, p.b.events[0].ID)
			p.move(p.b)
		}},
	} {
		p := newPair(t, 1)
		id := p.connect()
		p.run(10 * time.Millisecond)
		for range 3 {
			p.move(p.a)
			p.move(p.b)
			p.run(time.Second)
		}
		if qpn, ok := QueuePair(p.b.Engine, p.b.events[0].ID); !ok || qpn != passiveQPN {
			t.Errorf("%s: queue pair %#x, %v", c.name, qpn, ok)
		}
		c.end(p, id)
		p.run(time.Minute)
		p.wantEmpty()
		if n := p.a.Counters.UnknownID + p.b.Counters.UnknownID + p.a.Counters.UnknownDREQ + p.b.Counters.UnknownDREQ; n > 0 {
			t.Errorf("%s: %d messages named no connection", c.name, n)
		}
	}
}

// TestMovedKnowsRepetitions: messages answered before the move are recognised when they are repeated: a REQ, an RTU,
// and on the active side a REP, which gets its RTU again.
func TestMovedKnowsRepetitions(t *testing.T) {
	p := newPair(t, 1)
	p.connect()
	sent := map[wire.AttributeID]flight{}
	for limit := p.now + 10*time.Millisecond; ; {
		p.settle()
		for _, f := range p.flying {
			sent[f.what] = f
		}
		if !p.step(limit) {
			break
		}
	}
	p.move(p.a)
	p.move(p.b)
	for _, what := range []wire.AttributeID{wire.AttrREQ, wire.AttrREP, wire.AttrRTU} {
		f := sent[what]
		to := f.to
		to.Receive(p.now, netip.AddrPortFrom(f.from.addr, 55410), &f.packet)
	}
	p.run(time.Second)
	p.wantEvents(p.a, EventReply)
	p.wantEvents(p.b, EventRequest, EventEstablished)
	// The second RTU answers the REP.
	if a, b := p.a.Counters, p.b.Counters; a.DuplicateREP != 1 || a.Sent != 1 || b.DuplicateREQ != 1 || b.DuplicateRTU != 2 || b.Sent != 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestMoveHalfOpen: unfinished exchanges are dropped and counted. A repeated REQ is a new one.
func TestMoveHalfOpen(t *testing.T) {
	p := newPair(t, 1)
	p.answer = nil
	p.connect()
	p.run(10 * time.Millisecond)
	old := p.b.Engine
	p.move(p.b)
	if old.Counters.HalfOpenMoved != 1 || p.b.Connections() != 0 {
		t.Errorf("%d dropped, %d connections are left", old.Counters.HalfOpenMoved, p.b.Connections())
	}
	p.answer = func(ev Event) { p.accept(ev.ID) }
	p.run(3 * time.Second)
	p.wantEvents(p.b, EventRequest, EventRequest, EventEstablished)
	p.wantEvents(p.a, EventReply)
}

// TestMovedPeerIsProven: a peer whose RTU arrived before the move is still proven after it.
func TestMovedPeerIsProven(t *testing.T) {
	p := newPair(t, 1)
	p.connect()
	p.run(10 * time.Millisecond)
	p.move(p.b)
	if c := p.b.limiter.sources[addrA]; c == nil || c.connections != 1 {
		t.Errorf("the door knows %+v", c)
	}
	p.b.Disconnect(p.now, p.b.events[0].ID)
	p.run(time.Minute)
	if c := p.b.limiter.sources[addrA]; c == nil || c.connections != 0 {
		t.Errorf("after the end the door knows %+v", c)
	}
}

func exportedPair(t testing.TB) Exported {
	return Exported{GUID: 1, PSN: 5, Connections: []Connection{
		{ID: 1, RemoteID: 11, Peer: addrA, QPN: 0x21, PeerQPN: 0x31, TID: 7, Proven: true, StartingPSN: 9, AckTimeout: 18},
		{ID: 2, RemoteID: 12, Peer: addrA, QPN: 0x22, PeerQPN: 0x32, TrafficClass: 4, Active: true},
		{ID: 3, RemoteID: 12, Peer: addrA, QPN: 0x22, PeerQPN: 0x32, Disconnecting: true},
	}}
}

func TestCheckRefuses(t *testing.T) {
	x := exportedPair(t)
	if err := x.Check(addrB); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(x *Exported){
		"PSN 0x1000000":       func(x *Exported) { x.PSN = 1 << 24 },
		"zero or used twice":  func(x *Exported) { x.Connections[0].ID = 2 },
		"is zero":             func(x *Exported) { x.Connections[1].RemoteID = 0 },
		"of another one":      func(x *Exported) { x.Connections[1].RemoteID = 11 },
		"peer's queue pair":   func(x *Exported) { x.Connections[1].PeerQPN = 0x31 },
		"has the queue pair":  func(x *Exported) { x.Connections[1].QPN = 0x21 },
		"not a queue pair":    func(x *Exported) { x.Connections[1].QPN = 1 },
		"cannot be the peer":  func(x *Exported) { x.Connections[0].Peer = netip.MustParseAddr("2001:db8::1") },
		"::ffff:10.0.0.1":     func(x *Exported) { x.Connections[0].Peer = netip.MustParseAddr("::ffff:10.0.0.1") },
		"0.0.0.0":             func(x *Exported) { x.Connections[2].Peer = netip.IPv4Unspecified() },
		"invalid IP":          func(x *Exported) { x.Connections[2].Peer = netip.Addr{} },
		"has too many bits":   func(x *Exported) { x.Connections[0].AckTimeout = 32 },
		"starting PSN 0x1000": func(x *Exported) { x.Connections[0].StartingPSN = 1 << 24 },
	} {
		x := exportedPair(t)
		change(&x)
		if err := x.Check(addrB); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// FuzzCheck: a state that passes Check can be restored.
func FuzzCheck(f *testing.F) {
	x := exportedPair(f)
	b, err := json.Marshal(&x)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Exported
		if json.Unmarshal(b, &x) != nil || x.Check(addrB) != nil {
			return
		}
		e := newEngine(addrB, 1, nil)
		if err := x.Restore(0, e); err != nil {
			t.Fatal(err)
		}
		for _, c := range x.Connections {
			e.Disconnect(0, c.ID)
		}
		for e.Deadline() != Never {
			e.Timeout(e.Deadline())
			for _, ok := e.NextSend(); ok; _, ok = e.NextSend() {
			}
		}
		wantNothingLeft(t, e)
	})
}
