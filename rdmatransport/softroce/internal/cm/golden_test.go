package cm

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// A replay puts an engine in the place of one end of a capture. The engine gets the messages of the other end and the
// recorded random numbers, and must send the recorded messages byte for byte.
type replay struct {
	t      *testing.T
	e      *Engine
	self   netip.Addr
	nextID wire.CommID              // the next communication ID
	seen   map[wire.AttributeID]int // messages compared
}

func newReplay(t *testing.T, self netip.Addr) *replay {
	r := &replay{t: t, self: self, seen: map[wire.AttributeID]int{}}
	guid := wire.GUID(0x505400fffe000000) | wire.GUID(self.As16()[15])
	r.e = New(Config{Addr: self, GUID: guid, Rand: func() uint32 { return uint32(r.nextID) },
		TransactionHigh: 2, ResponseTimeout: 20})
	return r
}

func TestGoldenReplay(t *testing.T) {
	total := map[wire.AttributeID]int{}
	for _, name := range golden.Names("") {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, self := range []string{"10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2"} {
			t.Run(name+"/"+self, func(t *testing.T) {
				r := newReplay(t, netip.MustParseAddr(self))
				r.run(packets)
				for a, n := range r.seen {
					total[a] += n
				}
			})
		}
	}
	for _, a := range []wire.AttributeID{wire.AttrREQ, wire.AttrREP, wire.AttrRTU, wire.AttrREJ, wire.AttrDREQ, wire.AttrDREP} {
		if total[a] == 0 {
			t.Errorf("no %v was compared", a)
		}
	}
	t.Logf("messages compared: %v", total)
}

func (r *replay) run(packets []golden.Packet) {
	for i := range packets {
		g := &packets[i]
		var p wire.Packet
		if wire.Parse(g.Payload, &p) != wire.OK || p.Opcode != wire.UDSendOnly {
			continue
		}
		m, h, _ := wire.ParseMAD(p.Payload)
		switch r.self {
		case g.Dst.Addr():
			if h.Attribute == wire.AttrREQ {
				r.listenUnlessRefused(packets[i+1:], h.TID, m)
			}
			r.e.Receive(g.Time, g.Src, &p)
		case g.Src.Addr():
			r.act(g, m, h)
			r.wantSent(g, &p)
		}
	}
}

// listenUnlessRefused makes the engine listen on a service, unless the recorded end rejected the request.
func (r *replay) listenUnlessRefused(rest []golden.Packet, tid uint64, req *wire.MAD) {
	var q wire.REQ
	q.Parse(req)
	r.e.Listen(q.Service)
	for i := range rest {
		var p wire.Packet
		if wire.Parse(rest[i].Payload, &p) != wire.OK || p.Opcode != wire.UDSendOnly {
			continue
		}
		m, h, _ := wire.ParseMAD(p.Payload)
		switch {
		case h.TID != tid:
		case h.Attribute == wire.AttrREJ:
			r.e.Unlisten(q.Service)
			return
		case h.Attribute == wire.AttrREP:
			var rep wire.REP
			rep.Parse(m)
			r.nextID = rep.LocalID
			return
		}
	}
}

// act makes the engine send the recorded message, if it is not an automatic answer.
func (r *replay) act(g *golden.Packet, m *wire.MAD, h wire.MADHeader) {
	switch h.Attribute {
	case wire.AttrREQ:
		r.connect(g, m)
	case wire.AttrREP:
		r.accept(g, m)
	case wire.AttrRTU:
		ev := r.wantEvent(EventReply)
		r.wantNoError(r.e.Confirm(g.Time, ev.ID))
	case wire.AttrDREQ:
		var dreq wire.DREQ
		dreq.Parse(m)
		if r.e.lookup(dreq.LocalID) == nil {
			// The connection is older than the capture. It is constructed from the recorded message.
			c := &conn{id: dreq.LocalID, state: established, peer: g.Dst.Addr(), heapIndex: -1}
			r.e.conns[c.id] = c
			r.e.identify(c, dreq.RemoteID, dreq.RemoteQPN)
		}
		r.drain()
		r.e.Disconnect(g.Time, dreq.LocalID)
	}
}

func (r *replay) connect(g *golden.Packet, m *wire.MAD) {
	var q wire.REQ
	var ip wire.IPHeader
	q.Parse(m)
	ip.Parse(&q.PrivateData)
	port, _ := q.Service.Port()
	r.drain()
	r.nextID = q.LocalID
	_, err := r.e.Connect(g.Time, ConnectParams{
		To: netip.AddrPortFrom(g.Dst.Addr(), port), SourcePort: ip.SourcePort, QPN: q.QPN, StartingPSN: q.StartingPSN,
		ResponderResources: q.ResponderResources, InitiatorDepth: q.InitiatorDepth,
		RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, PathMTU: q.PathMTU, AckTimeout: q.AckTimeout,
		FlowControl: q.FlowControl,
		FlowLabel:   q.FlowLabel, PrivateData: q.PrivateData[wire.IPHeaderSize:],
	})
	r.wantNoError(err)
}

func (r *replay) accept(g *golden.Packet, m *wire.MAD) {
	var rep wire.REP
	rep.Parse(m)
	ev := r.wantEvent(EventRequest)
	r.wantNoError(r.e.Accept(g.Time, ev.ID, AcceptParams{
		QPN: rep.QPN, StartingPSN: rep.StartingPSN, ResponderResources: 255, InitiatorDepth: 255,
		RNRRetryCount: rep.RNRRetryCount, AckDelay: rep.AckDelay, FlowControl: rep.FlowControl,
		PrivateData: rep.PrivateData[:],
	}))
}

func (r *replay) wantNoError(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Error(err)
	}
}

// wantEvent reads events until one of that kind.
func (r *replay) wantEvent(kind EventKind) Event {
	r.t.Helper()
	for {
		ev, ok := r.e.NextEvent()
		if !ok {
			r.t.Fatalf("no %v event", kind)
		}
		if ev.Kind == kind {
			return ev
		}
	}
}

func (r *replay) drain() {
	for _, ok := r.e.NextEvent(); ok; _, ok = r.e.NextEvent() {
	}
}

func (r *replay) wantSent(g *golden.Packet, want *wire.Packet) {
	r.t.Helper()
	s, ok := r.e.NextSend()
	if !ok {
		r.t.Fatalf("nothing is sent at packet %d", g.Number)
	}
	got, _, _ := wire.ParseMAD(s.Packet.Payload)
	m, h, _ := wire.ParseMAD(want.Payload)
	if s.To != g.Dst.Addr() || *got != *m {
		r.t.Errorf("at packet %d to %v:\n%x, want %v\n%x", g.Number, s.To, *got, h.Attribute, *m)
	}
	p := s.Packet
	if p.DestQPN != want.DestQPN || p.DETH != want.DETH || p.PKey != want.PKey || p.Opcode != want.Opcode {
		r.t.Errorf("at packet %d: %+v, want %+v", g.Number, p, want)
	}
	r.seen[h.Attribute]++
}

// IBTA 12.7.31: the starting PSN in a message is the one at which its receiver starts.
func TestGoldenStartingPSN(t *testing.T) {
	packets, err := golden.Load("verbs-rping")
	if err != nil {
		t.Fatal(err)
	}
	begin := map[rdmatransport.QPN]wire.PSN{}
	checked := 0
	for i := range packets {
		var p wire.Packet
		wire.Parse(packets[i].Payload, &p)
		if p.Opcode == wire.UDSendOnly {
			m, h, _ := wire.ParseMAD(p.Payload)
			switch h.Attribute {
			case wire.AttrREQ:
				var r wire.REQ
				r.Parse(m)
				begin[r.QPN] = r.StartingPSN
			case wire.AttrREP:
				var r wire.REP
				r.Parse(m)
				begin[r.QPN] = r.StartingPSN
			}
			continue
		}
		if psn, ok := begin[p.DestQPN]; ok && p.Opcode.Flags()&wire.FlagRequest != 0 {
			if p.PSN != psn {
				t.Errorf("the first request to queue pair %#x has PSN %#x, want %#x", p.DestQPN, p.PSN, psn)
			}
			delete(begin, p.DestQPN)
			checked++
		}
	}
	if checked != 2 {
		t.Errorf("%d directions checked", checked)
	}
}
