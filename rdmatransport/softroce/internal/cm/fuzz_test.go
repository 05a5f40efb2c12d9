package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// stepSize is the length of a step of FuzzExchanges: a message of a peer, or what else happens.
//
//	0  a message in the order of fuzzMessages, or from stepConnect on what the owner does
//	1  the peer in bits 0 and 1, its communication ID in 2 and 3, its queue pair in 4 and 5
//	2  which of our communication IDs
//	3  reason, or message that an MRA or REJ answers
//	4  where the message is changed
//	5  by which bits
//	6  low byte of the timeouts in a message
//	7  time that passes afterwards, in units of 16 ms
const stepSize = 8

const (
	stepConnect = 7 + iota
	stepAccept
	stepReject
	stepConfirm
	stepDisconnect
	stepData
	stepTime
	stepKinds
)

var fuzzMessages = []wire.AttributeID{wire.AttrREQ, wire.AttrMRA, wire.AttrREJ, wire.AttrREP, wire.AttrRTU, wire.AttrDREQ, wire.AttrDREP}

var fuzzPeers = []netip.Addr{addrA, netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("10.9.9.9")}

// A course is the sequence of events that the owner has received for one connection.
type course struct {
	active, accepted, replied, established, ended, closed bool
	left                                                  bool // by the owner
}

// exchanges is an engine with the events of each connection.
type exchanges struct {
	t       *testing.T
	e       *Engine
	now     time.Duration
	ids     []wire.CommID // of all connections so far
	courses map[wire.CommID]*course
}

func newExchanges(t *testing.T) *exchanges {
	next := uint32(0)
	x := &exchanges{t: t, courses: map[wire.CommID]*course{}}
	x.e = New(Config{Addr: addrB, Rand: func() uint32 { next++; return next }, MaxHalfOpen: 4, MaxHalfOpenPerPeer: 3})
	x.e.Listen(wire.TCPService(testPort))
	return x
}

func (x *exchanges) do(step []byte) {
	kind, id := int(step[0])%stepKinds, wire.CommID(step[2])
	if len(x.ids) > 0 {
		id = x.ids[int(step[2])%len(x.ids)]
	}
	c := x.courses[id]
	switch kind {
	default:
		x.receive(fuzzMessages[kind], step, id)
	case stepConnect:
		p := connectParams()
		p.To = netip.AddrPortFrom(fuzzPeers[step[1]&3], testPort)
		if id, err := x.e.Connect(x.now, p); err == nil && len(x.ids) < 64 {
			x.ids = append(x.ids, id)
			x.courses[id] = &course{active: true}
		} else if err == nil {
			x.e.Disconnect(x.now, id)
			x.courses[id] = &course{left: true}
		}
	case stepAccept:
		err := x.e.Accept(x.now, id, acceptParams())
		if err == nil && (c.active || c.accepted || c.ended || c.closed || c.left) {
			x.t.Fatalf("accepted in %+v", c)
		}
		if err == nil {
			c.accepted = true
		}
	case stepReject:
		if x.e.Reject(x.now, id, rdmatransport.RejectReason(step[3]), nil) == nil {
			c.left = true
		}
	case stepConfirm:
		if x.e.Confirm(x.now, id) == nil {
			if !c.replied || c.ended || c.closed || c.left || c.established {
				x.t.Fatalf("confirmed in %+v", c)
			}
			c.established = true
		}
	case stepDisconnect:
		if x.e.Disconnect(x.now, id); c != nil {
			c.left = true
		}
	case stepData:
		x.e.Established(x.now, id)
	case stepTime:
		x.now = max(x.now, min(x.e.Deadline(), x.now+time.Minute))
	}
	x.now += time.Duration(step[7]) * 16 * time.Millisecond
	x.e.Timeout(x.now)
	x.check()
}

// receive passes a message to the engine, of which some bits may be changed.
func (x *exchanges) receive(what wire.AttributeID, step []byte, ours wire.CommID) {
	from, theirs := fuzzPeers[step[1]&3], wire.CommID(7+step[1]>>2&3)
	qpn, timeout := rdmatransport.QPN(0x100+uint32(step[1]>>4&3)), wire.Timeout(step[6]&31)
	var msg putter
	switch what {
	case wire.AttrREQ:
		r := goodREQ(theirs)
		r.QPN, r.AckTimeout, r.LocalTimeout, r.RemoteTimeout, r.MaxRetries = qpn, timeout, timeout, timeout, step[6]>>4
		h := wire.NewIPHeader(netip.AddrPortFrom(from, 5000), addrB)
		h.Put(&r.PrivateData)
		msg = &r
	case wire.AttrREP:
		msg = &wire.REP{LocalID: theirs, RemoteID: ours, QPN: qpn, StartingPSN: 1, AckDelay: timeout}
	case wire.AttrRTU:
		msg = &wire.RTU{LocalID: theirs, RemoteID: ours}
	case wire.AttrREJ:
		msg = &wire.REJ{LocalID: theirs, RemoteID: ours, Reason: rdmatransport.RejectReason(step[3] >> 2), Message: wire.CMMessage(step[3] & 3)}
	case wire.AttrMRA:
		msg = &wire.MRA{LocalID: theirs, RemoteID: ours, ServiceTimeout: timeout, Message: wire.CMMessage(step[3] & 3)}
	case wire.AttrDREQ:
		msg = &wire.DREQ{LocalID: theirs, RemoteID: ours, RemoteQPN: x.qpnOf(ours)}
	case wire.AttrDREP:
		msg = &wire.DREP{LocalID: theirs, RemoteID: ours}
	}
	var m wire.MAD
	msg.Put(&m, uint64(step[3]))
	m[step[4]] ^= step[5]
	x.e.Receive(x.now, netip.AddrPortFrom(from, 50000), packetWith(&m))
	if headers, _ := takeSends(x.t, x.e); len(headers) > 3 {
		x.t.Fatalf("one message has %d answers", len(headers))
	}
}

func (x *exchanges) qpnOf(id wire.CommID) rdmatransport.QPN {
	if c := x.e.lookup(id); c != nil {
		return c.qpn
	}
	return passiveQPN
}

// check reads the events. Those of each connection must come in a valid order, with none after its end.
func (x *exchanges) check() {
	for ev, ok := x.e.NextEvent(); ok; ev, ok = x.e.NextEvent() {
		c := x.courses[ev.ID]
		if c == nil && ev.Kind == EventRequest {
			c = &course{}
			x.courses[ev.ID] = c
			x.ids = append(x.ids, ev.ID)
			continue
		}
		if c == nil || !c.allows(ev.Kind) {
			x.t.Fatalf("%v of %d after %+v", ev.Kind, ev.ID, c)
		}
		switch ev.Kind {
		case EventReply:
			c.replied = true
		case EventEstablished:
			c.established = true
		case EventClosed:
			c.closed = true
		default:
			c.ended = true
		}
	}
	takeSends(x.t, x.e)
	if n, cfg := x.e.halfOpen.Len(), x.e.cfg; n > cfg.MaxHalfOpen {
		x.t.Fatalf("%d connections half open", n)
	}
	for who, n := range x.e.halfOpenPerPeer {
		if n <= 0 || n > x.e.cfg.MaxHalfOpenPerPeer {
			x.t.Fatalf("%d connections of %v half open", n, who)
		}
	}
}

func (c *course) allows(k EventKind) bool {
	switch k {
	case EventReply:
		return c.active && !c.replied && !c.ended && !c.closed && !c.left
	case EventEstablished:
		return c.accepted && !c.established && !c.ended && !c.closed && !c.left
	case EventRejected, EventUnreachable, EventDisconnected:
		return !c.ended && !c.closed
	case EventClosed:
		return !c.closed
	}
	return false
}

// end disconnects all connections and requires that nothing is left.
func (x *exchanges) end() {
	for _, id := range x.ids {
		x.e.Disconnect(x.now, id)
		if c := x.courses[id]; !c.closed {
			c.left = true
		}
	}
	for n := 0; x.e.Deadline() != Never; n++ {
		if n > 5000 {
			x.t.Fatal("the engine does not come to rest")
		}
		x.e.Timeout(x.e.Deadline())
		x.check()
	}
	x.check()
	for id, c := range x.courses {
		if !c.closed {
			x.t.Errorf("connection %d is not closed: %+v", id, c)
		}
	}
	wantNothingLeft(x.t, x.e)
}

// stepsOf converts the messages of a capture to steps, as received by one of its ends.
func stepsOf(f *testing.F, name string) (script []byte) {
	packets, err := golden.Load(name)
	if err != nil {
		f.Fatal(err)
	}
	for i := range packets {
		var p wire.Packet
		if wire.Parse(packets[i].Payload, &p) != wire.OK || p.Opcode != wire.UDSendOnly || len(script) > 40*stepSize {
			continue
		}
		_, h, _ := wire.ParseMAD(p.Payload)
		kind := byte(0)
		for k, a := range fuzzMessages {
			if a == h.Attribute {
				kind = byte(k)
			}
		}
		ours := packets[i].Src.Addr().Less(packets[i].Dst.Addr())
		switch {
		case !ours:
		case h.Attribute == wire.AttrREQ:
			kind = stepConnect
		case h.Attribute == wire.AttrREP:
			kind = stepAccept
		case h.Attribute == wire.AttrREJ:
			kind = stepReject
		case h.Attribute == wire.AttrRTU:
			kind = stepConfirm
		case h.Attribute == wire.AttrDREQ:
			kind = stepDisconnect
		default:
			continue
		}
		connection := byte(len(script) / stepSize / 6)
		script = append(script, kind, connection<<4&0x30|connection<<2&0x0c, connection, 0, 0, 0, 18, 1)
	}
	return script
}

// FuzzExchanges sends any sequence of messages to an engine whose owner connects, accepts and disconnects at random.
// The corpus starts with the captures.
func FuzzExchanges(f *testing.F) {
	for _, name := range golden.Names("") {
		f.Add(stepsOf(f, name))
	}
	for kind := range byte(stepKinds) {
		request := []byte{0, 0, 0, 0, 0, 0, 18, 1, stepAccept, 0, 0, 0, 0, 0, 0, 1}
		f.Add(append(request, kind, 0, 0, 0, 0, 0, 18, 0, kind, 0, 0, 4, 0, 0, 20, 200))
		f.Add([]byte{stepConnect, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 18, 1, kind, 0, 0, 0, 0, 0, 18, 1, stepConfirm, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, 0, 0, 0, 18, 1})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		x := newExchanges(t)
		for ; len(script) >= stepSize; script = script[stepSize:] {
			x.do(script)
		}
		x.end()
	})
}
