package cm

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Rows 1, 7 to 11 and 110 of the catalogue of bad input, as far as they concern this layer. Every test ends with a
// connection that works.

// goodREQ is the REQ that addrA would send to addrB.
func goodREQ(id wire.CommID) wire.REQ {
	params := connectParams()
	e := newEngine(addrA, 1, nil)
	r := e.request(id, addrB, &params)
	r.AckTimeout = 14
	return r
}

// goodREP returns the REP to the request with that ID.
func goodREP(remote wire.CommID) wire.REP {
	return wire.REP{LocalID: 0x500, RemoteID: remote, QPN: passiveQPN, StartingPSN: 1}
}

func packetWith(m *wire.MAD) *wire.Packet {
	return &wire.Packet{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQPN: wire.CMQPN,
		DETH: wire.DETH{QKey: wire.CMQKey, SrcQPN: wire.CMQPN}, Payload: m[:]}
}

type putter interface{ Put(*wire.MAD, uint64) }

// inject passes one message to an engine.
func inject(e *Engine, now time.Duration, from netip.Addr, msg putter) {
	var m wire.MAD
	msg.Put(&m, 0x1234)
	e.Receive(now, netip.AddrPortFrom(from, 50000), packetWith(&m))
}

// takeSends returns the messages that an engine has to send.
func takeSends(t *testing.T, e *Engine) (headers []wire.MADHeader, mads []*wire.MAD) {
	t.Helper()
	for {
		s, ok := e.NextSend()
		if !ok {
			return headers, mads
		}
		m, h, fault := wire.ParseMAD(s.Packet.Payload)
		if fault != wire.OK {
			t.Fatal(fault)
		}
		headers, mads = append(headers, h), append(mads, m)
	}
}

func wantREJ(t *testing.T, e *Engine, remote wire.CommID, reason rdmatransport.RejectReason) {
	t.Helper()
	headers, mads := takeSends(t, e)
	if len(headers) != 1 || headers[0].Attribute != wire.AttrREJ || headers[0].TID != 0x1234 {
		t.Errorf("sent %v, want one REJ", headers)
		return
	}
	var r wire.REJ
	r.Parse(mads[0])
	if r.Reason != reason || r.RemoteID != remote || r.LocalID != 0 || r.Message != wire.MessageREQ {
		t.Errorf("REJ reason %d (%v) to %#x, want %d", r.Reason, r.Reason, r.RemoteID, reason)
	}
}

func wantSilence(t *testing.T, e *Engine) {
	t.Helper()
	if headers, _ := takeSends(t, e); len(headers) != 0 {
		t.Errorf("sent %v, want nothing", headers)
	}
	if ev, ok := e.NextEvent(); ok {
		t.Errorf("event %v, want none", ev.Kind)
	}
}

// wantWorks connects to b, an engine that has received bad input.
func wantWorks(t *testing.T, b *Engine) {
	t.Helper()
	p := newPair(t, 77)
	p.b.Engine = b
	params := connectParams()
	params.QPN = 0x777
	if _, err := p.a.Connect(0, params); err != nil {
		t.Fatal(err)
	}
	p.run(10 * time.Millisecond)
	p.wantEvents(p.a, EventReply)
}

// header changes the RDMA CM's header of a request.
func header(change func(h *wire.IPHeader)) func(*wire.REQ) {
	return func(r *wire.REQ) {
		var h wire.IPHeader
		h.Parse(&r.PrivateData)
		change(&h)
		h.Put(&r.PrivateData)
	}
}

var refusedRequests = []struct {
	name    string
	change  func(r *wire.REQ)
	reason  rdmatransport.RejectReason
	counter func(n *Counters) uint64
}{
	{"all-zero private data", func(r *wire.REQ) { r.PrivateData = [92]byte{} },
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.InvalidIPHeader }},
	{"nobody listens on the port", func(r *wire.REQ) { r.Service++ },
		rdmatransport.RejectInvalidServiceID, func(n *Counters) uint64 { return n.InvalidService }},
	{"another port space", func(r *wire.REQ) { r.Service = 0x01110000 | testPort },
		rdmatransport.RejectInvalidServiceID, func(n *Counters) uint64 { return n.InvalidService }},
	{"UC", func(r *wire.REQ) { r.Transport = wire.TransportUC },
		rdmatransport.RejectInvalidTransport, func(n *Counters) uint64 { return n.InvalidTransport }},
	{"RD", func(r *wire.REQ) { r.Transport = wire.TransportRD },
		rdmatransport.RejectInvalidTransport, func(n *Counters) uint64 { return n.InvalidTransport }},
	{"transport type 3", func(r *wire.REQ) { r.Transport = 3 },
		rdmatransport.RejectInvalidTransport, func(n *Counters) uint64 { return n.InvalidTransport }},
	{"path MTU 0", func(r *wire.REQ) { r.PathMTU = 0 },
		rdmatransport.RejectInvalidMTU, func(n *Counters) uint64 { return n.InvalidMTU }},
	{"path MTU 6", func(r *wire.REQ) { r.PathMTU = 6 },
		rdmatransport.RejectInvalidMTU, func(n *Counters) uint64 { return n.InvalidMTU }},
	{"path MTU 15", func(r *wire.REQ) { r.PathMTU = 15 },
		rdmatransport.RejectInvalidMTU, func(n *Counters) uint64 { return n.InvalidMTU }},
	{"path MTU above ours", func(r *wire.REQ) { r.PathMTU = 5 },
		rdmatransport.RejectInvalidMTU, func(n *Counters) uint64 { return n.InvalidMTU }},
	{"another remote GID", func(r *wire.REQ) { r.RemoteGID[15]++ },
		rdmatransport.RejectInvalidGID, func(n *Counters) uint64 { return n.InvalidGID }},
	{"a local GID that is not the source", func(r *wire.REQ) { r.LocalGID[15]++ },
		rdmatransport.RejectInvalidGID, func(n *Counters) uint64 { return n.SourceMismatch }},
	{"rdma_cm version 1", header(func(h *wire.IPHeader) { h.Version = 1 }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.InvalidIPHeader }},
	{"IP version 0", header(func(h *wire.IPHeader) { h.IPVersion = 0 }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.InvalidIPHeader }},
	{"IP version 7", header(func(h *wire.IPHeader) { h.IPVersion = 7 }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.InvalidIPHeader }},
	{"a source in the header that is not the packet's", header(func(h *wire.IPHeader) { h.Source[15]++ }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.SourceMismatch }},
	{"a destination in the header that is not ours", header(func(h *wire.IPHeader) { h.Destination[15]++ }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.SourceMismatch }},
	{"an IPv6 header over IPv4", header(func(h *wire.IPHeader) { h.IPVersion = 6 }),
		rdmatransport.RejectConsumer, func(n *Counters) uint64 { return n.SourceMismatch }},
}

func TestRefusedRequests(t *testing.T) {
	for _, c := range refusedRequests {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(addrB, 2, func(cfg *Config) { cfg.MaxMTU = wire.MTUFor(2048) })
			r := goodREQ(7)
			c.change(&r)
			inject(e, 0, addrA, &r)
			wantREJ(t, e, 7, c.reason)
			if got := c.counter(&e.Counters); got != 1 {
				t.Errorf("counter is %d: %+v", got, e.Counters)
			}
			wantSilence(t, e)
			wantNothingLeft(t, e)
			wantWorks(t, e)
		})
	}
}

// The consumer decides on retry counts of 7, zero READs and an unusual P_Key.
func TestUnusualRequestsArePassedOn(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	r := goodREQ(7)
	r.RetryCount, r.RNRRetryCount, r.MaxRetries, r.ResponderResources, r.InitiatorDepth = 7, 7, 0, 0, 0
	r.LocalTimeout, r.RemoteTimeout = 0, 31
	inject(e, 0, addrA, &r)
	ev, ok := e.NextEvent()
	if !ok || ev.Kind != EventRequest || ev.Peer.InitiatorDepth != 0 || ev.Peer.RetryCount != 7 {
		t.Errorf("%+v", ev)
	}
	if err := e.Accept(0, ev.ID, acceptParams()); err != nil {
		t.Fatal(err)
	}
	_, mads := takeSends(t, e)
	var rep wire.REP
	rep.Parse(mads[0])
	if rep.InitiatorDepth != 0 || rep.ResponderResources != 0 {
		t.Errorf("the REP promises reads that the REQ did not ask for: %+v", rep)
	}
	// A timeout of 4 µs must not cause a flood, and one of hours must not cause a long wait.
	if d := e.Deadline(); d < minInterval/4 || d > maxInterval {
		t.Errorf("REP repeated after %v", d)
	}
	wantWorks(t, e)
}

func TestDroppedPackets(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(p *wire.Packet)
		counter func(n *Counters) uint64
	}{
		{"base version", func(p *wire.Packet) { p.Payload[0] = 2 }, func(n *Counters) uint64 { return n.BadMAD }},
		{"class", func(p *wire.Packet) { p.Payload[1] = 3 }, func(n *Counters) uint64 { return n.BadMAD }},
		{"class version", func(p *wire.Packet) { p.Payload[2] = 1 }, func(n *Counters) uint64 { return n.BadMAD }},
		{"method", func(p *wire.Packet) { p.Payload[3] = 1 }, func(n *Counters) uint64 { return n.BadMAD }},
		{"attribute", func(p *wire.Packet) { p.Payload[17] = 0x0f }, func(n *Counters) uint64 { return n.UnknownAttribute }},
		{"SIDR_REQ", func(p *wire.Packet) { p.Payload[17] = 0x17 }, func(n *Counters) uint64 { return n.UnknownAttribute }},
		{"LAP", func(p *wire.Packet) { p.Payload[17] = 0x19 }, func(n *Counters) uint64 { return n.UnknownAttribute }},
		{"255 bytes", func(p *wire.Packet) { p.Payload = p.Payload[:255] }, func(n *Counters) uint64 { return n.BadMAD }},
		{"260 bytes", func(p *wire.Packet) { p.Payload = append(p.Payload, 0, 0, 0, 0) }, func(n *Counters) uint64 { return n.BadMAD }},
		{"one byte", func(p *wire.Packet) { p.Payload = p.Payload[:1] }, func(n *Counters) uint64 { return n.BadMAD }},
		{"nothing", func(p *wire.Packet) { p.Payload = nil }, func(n *Counters) uint64 { return n.BadMAD }},
		{"all ones", func(p *wire.Packet) { p.Payload = bytes.Repeat([]byte{0xff}, 256) }, func(n *Counters) uint64 { return n.BadMAD }},
		{"all zero", func(p *wire.Packet) { p.Payload = make([]byte, 256) }, func(n *Counters) uint64 { return n.BadMAD }},
		{"Q_Key", func(p *wire.Packet) { p.DETH.QKey = 0x11111111 }, func(n *Counters) uint64 { return n.WrongQKey }},
		{"P_Key", func(p *wire.Packet) { p.PKey = 1 }, func(n *Counters) uint64 { return n.WrongPKey }},
		{"opcode", func(p *wire.Packet) { p.Opcode = wire.RCSendOnly }, func(n *Counters) uint64 { return n.NotUDSend }},
		{"QPN", func(p *wire.Packet) { p.DestQPN = 0 }, func(n *Counters) uint64 { return n.WrongQPN }},
		{"communication ID 0", func(p *wire.Packet) { copy(p.Payload[24:], make([]byte, 4)) }, func(n *Counters) uint64 { return n.MalformedMessage }},
		{"queue pair 1", func(p *wire.Packet) { copy(p.Payload[24+32:], []byte{0, 0, 1}) }, func(n *Counters) uint64 { return n.MalformedMessage }},
		{"the multicast queue pair", func(p *wire.Packet) { copy(p.Payload[24+32:], []byte{255, 255, 255}) }, func(n *Counters) uint64 { return n.MalformedMessage }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(addrB, 2, nil)
			r := goodREQ(7)
			var m wire.MAD
			r.Put(&m, 1)
			p := packetWith(&m)
			c.change(p)
			e.Receive(0, netip.AddrPortFrom(addrA, 1), p)
			wantSilence(t, e)
			if got := c.counter(&e.Counters); got != 1 {
				t.Errorf("counter is %d: %+v", got, e.Counters)
			}
			wantNothingLeft(t, e)
			wantWorks(t, e)
		})
	}
}

func TestImpossibleSources(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	for _, from := range []string{"0.0.0.0", "224.0.0.1", "fd00::1", "::"} {
		r := goodREQ(7)
		inject(e, 0, netip.MustParseAddr(from), &r)
	}
	e.Receive(0, netip.AddrPort{}, packetWith(new(wire.MAD)))
	wantSilence(t, e)
	if e.Counters.SourceMismatch != 5 {
		t.Errorf("%+v", e.Counters)
	}
}

func TestUnknownIDs(t *testing.T) {
	for _, msg := range []putter{
		&wire.REP{LocalID: 1, RemoteID: 2, QPN: 3}, &wire.RTU{LocalID: 1, RemoteID: 2}, &wire.DREP{LocalID: 1, RemoteID: 2},
		&wire.REJ{LocalID: 1, RemoteID: 2}, &wire.REJ{RemoteID: 2}, &wire.REJ{LocalID: 1, Reason: rdmatransport.RejectTimeout},
		&wire.MRA{LocalID: 1, RemoteID: 2}, &wire.MRA{LocalID: 1, RemoteID: 2, Message: wire.MessageREP},
	} {
		e := newEngine(addrB, 2, nil)
		inject(e, 0, addrA, msg)
		wantSilence(t, e)
		if e.Counters.UnknownID != 1 {
			t.Errorf("%T: %+v", msg, e.Counters)
		}
		wantWorks(t, e)
	}
}

func TestUnknownDREQIsAnswered(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	for n := range 2 {
		inject(e, 0, addrA, &wire.DREQ{LocalID: 1, RemoteID: 2, RemoteQPN: 3})
		headers, mads := takeSends(t, e)
		if len(mads) != 1 || headers[0] != (wire.MADHeader{TID: 0x1234, Attribute: wire.AttrDREP}) {
			t.Fatalf("sent %v", headers)
		}
		var d wire.DREP
		d.Parse(mads[0])
		if d.LocalID != 2 || d.RemoteID != 1 || e.Counters.UnknownDREQ != uint64(n+1) {
			t.Errorf("%+v", d)
		}
	}
	wantNothingLeft(t, e)
	wantWorks(t, e)
}

// Messages about a connection that come from an address other than its peer's, or contain another communication ID of
// the peer, change nothing.
func TestForgedMessages(t *testing.T) {
	p := newPair(t, 30)
	id := p.connect()
	p.run(time.Second)
	other := p.b.events[0].ID
	stranger := netip.MustParseAddr("10.0.0.3")
	for _, msg := range []putter{
		&wire.DREQ{LocalID: other, RemoteID: id, RemoteQPN: activeQPN}, &wire.DREP{LocalID: other, RemoteID: id},
		&wire.REJ{LocalID: other, RemoteID: id}, &wire.REP{LocalID: other, RemoteID: id, QPN: passiveQPN},
		&wire.MRA{LocalID: other, RemoteID: id, Message: wire.MessageREP}, &wire.RTU{LocalID: other, RemoteID: id},
	} {
		before := p.a.Counters.SourceMismatch
		inject(p.a.Engine, p.now, stranger, msg)
		if p.a.Counters.SourceMismatch != before+1 {
			t.Errorf("%T: not counted", msg)
		}
	}
	takeSends(t, p.a.Engine) // a DREP, as for an unknown ID
	for _, msg := range []putter{
		&wire.REJ{LocalID: other + 1, RemoteID: id}, &wire.REP{LocalID: other + 1, RemoteID: id, QPN: passiveQPN},
		&wire.DREP{LocalID: other + 1, RemoteID: id},
	} {
		before := p.a.Counters.UnknownID
		inject(p.a.Engine, p.now, addrB, msg)
		if p.a.Counters.UnknownID != before+1 {
			t.Errorf("%T: not counted", msg)
		}
	}
	for _, msg := range []putter{
		&wire.DREP{LocalID: other, RemoteID: id}, &wire.RTU{LocalID: other, RemoteID: id},
		&wire.MRA{LocalID: other, RemoteID: id},
	} {
		before := p.a.Counters.WrongState
		inject(p.a.Engine, p.now, addrB, msg)
		if p.a.Counters.WrongState != before+1 {
			t.Errorf("%T: not counted", msg)
		}
	}
	wantSilence(t, p.a.Engine)
}

func TestMalformedReply(t *testing.T) {
	for _, change := range []func(*wire.REP){
		func(r *wire.REP) { r.QPN = 1 }, func(r *wire.REP) { r.LocalID = 0 },
	} {
		e := newEngine(addrA, 2, nil)
		id, err := e.Connect(0, connectParams())
		if err != nil {
			t.Fatal(err)
		}
		takeSends(t, e)
		rep := goodREP(id)
		change(&rep)
		inject(e, 0, addrB, &rep)
		wantSilence(t, e)
		if e.Counters.MalformedMessage != 1 {
			t.Errorf("%+v", e.Counters)
		}
		rep = goodREP(id)
		inject(e, 0, addrB, &rep)
		if ev, _ := e.NextEvent(); ev.Kind != EventReply {
			t.Errorf("the good reply afterwards: %v", ev.Kind)
		}
	}
}

// A reply cannot raise the depths above what was asked for.
func TestReplyDepthsAreBounded(t *testing.T) {
	e := newEngine(addrA, 2, nil)
	id, err := e.Connect(0, connectParams())
	if err != nil {
		t.Fatal(err)
	}
	rep := goodREP(id)
	rep.ResponderResources, rep.InitiatorDepth = 255, 255
	inject(e, 0, addrB, &rep)
	ev, _ := e.NextEvent()
	if ev.Peer.InitiatorDepth != 4 || ev.Peer.ResponderResources != 16 {
		t.Errorf("%+v", ev.Peer)
	}
}

// An MRA cannot delay the end forever.
func TestMRAExtensionIsBounded(t *testing.T) {
	e := newEngine(addrA, 2, nil)
	id, err := e.Connect(0, connectParams())
	if err != nil {
		t.Fatal(err)
	}
	inject(e, 0, addrB, &wire.MRA{LocalID: 9, RemoteID: id, ServiceTimeout: 31})
	if e.Deadline() > maxMRAExtend {
		t.Errorf("waits until %v", e.Deadline())
	}
	// 2^20 · 4.096 µs and one interval of ours.
	inject(e, 0, addrB, &wire.MRA{LocalID: 9, RemoteID: id, ServiceTimeout: 20})
	if want := wire.Timeout(20).Duration() + wire.Timeout(18).Duration(); e.Deadline() != want {
		t.Errorf("waits until %v, want %v", e.Deadline(), want)
	}
}

// TestFloodOfRequests is row 110: the oldest requests make room for the newest.
func TestFloodOfRequests(t *testing.T) {
	const global, perPeer = 64, 8
	for _, sources := range []int{1, 1000} {
		e := newEngine(addrB, 2, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerPeer = global, perPeer })
		host := establish(t, e)
		rejected := map[wire.CommID]bool{}
		flood := choose(5000, 20000)
		for i := range flood {
			from := netip.AddrFrom4([4]byte{10, 1, byte(i % sources >> 8), byte(i % sources)})
			r := goodREQ(wire.CommID(1000 + i))
			r.LocalGID, r.QPN = wire.GIDFor(from), rdmatransport.QPN(1000+i)
			h := wire.NewIPHeader(netip.AddrPortFrom(from, 1), addrB)
			h.Put(&r.PrivateData)
			inject(e, time.Duration(4*i)*time.Millisecond, from, &r) // below the limiter's rates
			for ev, ok := e.NextEvent(); ok; ev, ok = e.NextEvent() {
				if ev.Kind == EventRequest && i%2 == 0 {
					if err := e.Accept(0, ev.ID, acceptParams()); err != nil {
						t.Fatal(err)
					}
				}
			}
			headers, mads := takeSends(t, e)
			for k, h := range headers {
				if h.Attribute == wire.AttrREJ {
					var rej wire.REJ
					rej.Parse(mads[k])
					if rej.Reason != rdmatransport.RejectNoResources {
						t.Fatalf("REJ reason %v", rej.Reason)
					}
					rejected[rej.RemoteID] = true
				}
			}
		}
		limit := min(global, sources*perPeer)
		if got := e.halfOpen.Len(); got != limit {
			t.Errorf("%d sources: %d half open, want %d", sources, got, limit)
		}
		if len(rejected) != flood-limit || rejected[wire.CommID(1000+flood-1)] || !rejected[1000] {
			t.Errorf("%d sources: %d evicted, want the %d oldest", sources, len(rejected), flood-limit)
		}
		if e.Counters.HalfOpenEvicted != uint64(flood-limit) {
			t.Errorf("%+v", e.Counters)
		}
		if c := e.lookup(host); c == nil || c.state != established {
			t.Error("the established connection suffered")
		}
		end := time.Duration(4*flood) * time.Millisecond
		e.Disconnect(end, host)
		for now := end; e.Deadline() != Never; now = e.Deadline() {
			e.Timeout(now)
			takeSends(t, e)
		}
		for _, ok := e.NextEvent(); ok; _, ok = e.NextEvent() {
		}
		wantNothingLeft(t, e)
		wantWorks(t, e)
	}
}

// Row 110: an IPv6 network has the same limit as one address.
func TestFloodFromNetwork(t *testing.T) {
	to := netip.MustParseAddr("2001:db8::1")
	e := newEngine(to, 2, func(c *Config) { c.MaxHalfOpenPerPeer = 8 })
	ask := func(id wire.CommID, from netip.Addr) {
		r := goodREQ(id)
		r.LocalGID, r.RemoteGID, r.QPN = wire.GIDFor(from), wire.GIDFor(to), rdmatransport.QPN(1000+id)
		h := wire.NewIPHeader(netip.AddrPortFrom(from, 1), to)
		h.Put(&r.PrivateData)
		inject(e, 0, from, &r)
	}
	ask(1, netip.MustParseAddr("2001:db8:1::1"))
	for i := range wire.CommID(1000) {
		a := netip.MustParseAddr("2001:db8:0:6::").As16()
		a[8+i%8], a[15] = byte(i), byte(i>>8)
		ask(2+i, netip.AddrFrom16(a))
	}
	if n := e.halfOpen.Len(); n != 9 || len(e.halfOpenPerPeer) != 2 || e.Counters.HalfOpenEvicted != 992 {
		t.Errorf("%d half open of %d networks: %+v", n, len(e.halfOpenPerPeer), e.Counters)
	}
}

// A peer that does not confirm gets the time that we allow, whatever timeouts its REQ contains and however many MRAs
// follow. It is sent a limited number of messages, since the source address may be forged.
func TestConfirmTimeout(t *testing.T) {
	for i, retries := range []uint8{0, 15, 0, 15} {
		mra := i >= 2
		for _, timeout := range []wire.Timeout{0, 20, 31} {
			e := newEngine(addrB, 2, nil)
			r := goodREQ(7)
			r.LocalTimeout, r.MaxRetries = timeout, retries
			inject(e, 0, addrA, &r)
			ev, _ := e.NextEvent()
			if err := e.Accept(0, ev.ID, acceptParams()); err != nil {
				t.Fatal(err)
			}
			sent := 0
			now := time.Duration(0)
			for ; e.conns[ev.ID] != nil; now = e.Deadline() {
				e.Timeout(now)
				headers, _ := takeSends(t, e)
				sent += len(headers)
				inject(e, now, addrA, &wire.MRA{RemoteID: ev.ID, Message: wire.MessageREP, ServiceTimeout: 31}) // forged
				if mra {
					inject(e, now, addrA, &wire.MRA{LocalID: 7, RemoteID: ev.ID, Message: wire.MessageREP, ServiceTimeout: 31})
				}
				if e.Deadline() == Never {
					break
				}
			}
			most := e.cfg.ConfirmTimeout + maxTimeWait
			if mra {
				most = maxMRAExtend + maxTimeWait
			}
			if now > most || sent > 22 {
				t.Errorf("timeout %d, %d retries: %d messages within %v, want %v", timeout, retries, sent, now, most)
			}
		}
	}
}

// An unconfirmed connection is ended with few messages.
func TestDisconnectUnconfirmed(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	id := request(t, e, 0, 7, activeQPN)
	if err := e.Accept(0, id, acceptParams()); err != nil {
		t.Fatal(err)
	}
	takeSends(t, e)
	e.Disconnect(0, id)
	sent := 0
	for e.Deadline() != Never {
		e.Timeout(e.Deadline())
		headers, _ := takeSends(t, e)
		sent += len(headers)
	}
	if sent > 3 {
		t.Errorf("%d messages", sent)
	}
	for _, ok := e.NextEvent(); ok; _, ok = e.NextEvent() {
	}
	wantNothingLeft(t, e)
}

// establish makes a connection from addrA.
func establish(t *testing.T, e *Engine) wire.CommID {
	t.Helper()
	r := goodREQ(7)
	inject(e, 0, addrA, &r)
	ev, _ := e.NextEvent()
	if err := e.Accept(0, ev.ID, acceptParams()); err != nil {
		t.Fatal(err)
	}
	inject(e, 0, addrA, &wire.RTU{LocalID: 7, RemoteID: ev.ID})
	if ev, _ := e.NextEvent(); ev.Kind != EventEstablished {
		t.Fatal(ev.Kind)
	}
	takeSends(t, e)
	return ev.ID
}

func FuzzReceive(f *testing.F) {
	req, rep := goodREQ(7), goodREP(8)
	for _, msg := range []putter{&req, &rep, &wire.RTU{LocalID: 7, RemoteID: 1}, &wire.REJ{LocalID: 7, RemoteID: 1},
		&wire.MRA{LocalID: 7, RemoteID: 1}, &wire.DREQ{LocalID: 7, RemoteID: 1}, &wire.DREP{LocalID: 7, RemoteID: 1}} {
		var m wire.MAD
		msg.Put(&m, 1)
		f.Add(m[:], m[:])
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		next := uint32(0)
		e := New(Config{Addr: addrB, Rand: func() uint32 { next++; return next }})
		e.Listen(wire.TCPService(testPort))
		now := time.Duration(0)
		if _, err := e.Connect(now, ConnectParams{To: netip.AddrPortFrom(addrA, testPort), PathMTU: 3}); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{first, second, first} {
			e.Receive(now, netip.AddrPortFrom(addrA, 1), &wire.Packet{Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey,
				DestQPN: wire.CMQPN, DETH: wire.DETH{QKey: wire.CMQKey}, Payload: b})
			for ev, ok := e.NextEvent(); ok; ev, ok = e.NextEvent() {
				switch ev.Kind {
				case EventRequest:
					_ = e.Accept(now, ev.ID, acceptParams())
				case EventReply:
					_ = e.Confirm(now, ev.ID)
				}
			}
			takeSends(t, e)
			now += 10 * time.Millisecond
		}
		for id := range next + 1 {
			e.Disconnect(now, wire.CommID(id))
		}
		for n := 0; e.Deadline() != Never; n++ {
			if n > 1000 {
				t.Fatal("the engine does not come to rest")
			}
			e.Timeout(e.Deadline())
		}
		wantNothingLeft(t, e)
	})
}
