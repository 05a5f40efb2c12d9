package badinput

import (
	"bytes"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Counters of connection management.
func invalidHeader(s *softroce.Stats) uint64    { return s.CM.InvalidIPHeader }
func invalidService(s *softroce.Stats) uint64   { return s.CM.InvalidService }
func invalidMTU(s *softroce.Stats) uint64       { return s.CM.InvalidMTU }
func invalidTransport(s *softroce.Stats) uint64 { return s.CM.InvalidTransport }
func invalidGID(s *softroce.Stats) uint64       { return s.CM.InvalidGID }
func cmSource(s *softroce.Stats) uint64         { return s.CM.SourceMismatch }
func duplicateREQ(s *softroce.Stats) uint64     { return s.CM.DuplicateREQ }
func stale(s *softroce.Stats) uint64            { return s.CM.Stale }
func unknownID(s *softroce.Stats) uint64        { return s.CM.UnknownID }
func unknownDREQ(s *softroce.Stats) uint64      { return s.CM.UnknownDREQ }
func wrongState(s *softroce.Stats) uint64       { return s.CM.WrongState }
func cmTimeouts(s *softroce.Stats) uint64       { return s.CM.Timeouts }
func malformed(s *softroce.Stats) uint64        { return s.CM.MalformedMessage }
func badMAD(s *softroce.Stats) uint64           { return s.CM.BadMAD }
func unknownAttribute(s *softroce.Stats) uint64 { return s.CM.UnknownAttribute }
func wrongQKey(s *softroce.Stats) uint64        { return s.CM.WrongQKey }
func cmPKey(s *softroce.Stats) uint64           { return s.CM.WrongPKey }
func notUD(s *softroce.Stats) uint64            { return s.CM.NotUDSend }
func messagesIn(s *softroce.Stats) uint64       { return s.CM.Received }

// refused is a request that must be rejected.
func refused(row string, n counter, reason rdmatransport.RejectReason, status capsule.RejectStatus, change func(r *wire.REQ)) attack {
	return attack{row: row, counter: n, run: func(l *lab) {
		c, r := l.gremlin.open()
		change(r)
		l.gremlin.say(r)
		c.wantREJ(reason, status)
	}}
}

// refusedNVMe is a request that the target itself rejects, with an NVMe status.
func refusedNVMe(row string, status capsule.RejectStatus, change func(d *capsule.RequestData)) attack {
	return refused(row, messagesIn, rdmatransport.RejectConsumer, status, func(r *wire.REQ) { nvme(r, change) })
}

// granted is an unusual request that must be accepted and give a working connection.
func granted(row string, change func(r *wire.REQ)) attack {
	return attack{row: row, run: func(l *lab) {
		c, r := l.gremlin.open()
		change(r)
		c.establish(r)
		c.connect()
		c.alive()
	}}
}

func TestRefusedRequests(t *testing.T) {
	const consumer = rdmatransport.RejectConsumer
	test(t, []attack{
		refused("1 all-zero private data", invalidHeader, consumer, 0, func(r *wire.REQ) { r.PrivateData = [92]byte{} }),
		refusedNVMe("1 all-zero NVMe part", capsule.RejectInvalidHSQSIZE, func(d *capsule.RequestData) { *d = capsule.RequestData{} }),
		refusedNVMe("2 RECFMT 1", capsule.RejectInvalidRECFMT, func(d *capsule.RequestData) { d.RECFMT = 1 }),
		refusedNVMe("2 RECFMT 65535", capsule.RejectInvalidRECFMT, func(d *capsule.RequestData) { d.RECFMT = 65535 }),
		refusedNVMe("3 QID 129", capsule.RejectInvalidQID, func(d *capsule.RequestData) { d.QID = 129 }),
		refusedNVMe("3 QID 65535", capsule.RejectInvalidQID, func(d *capsule.RequestData) { d.QID = 65535 }),
		refusedNVMe("4 HSQSIZE 0", capsule.RejectInvalidHSQSIZE, func(d *capsule.RequestData) { d.HSQSIZE = 0 }),
		refusedNVMe("4 HSQSIZE 65535", capsule.RejectInvalidHSQSIZE, func(d *capsule.RequestData) { d.QID, d.HSQSIZE = 1, 65535 }),
		refusedNVMe("4 I/O queue of 129", capsule.RejectInvalidHSQSIZE, func(d *capsule.RequestData) { d.QID, d.HSQSIZE = 1, 128 }),
		refusedNVMe("4 admin queue of 129", capsule.RejectInvalidHSQSIZE, func(d *capsule.RequestData) { d.HSQSIZE = 128 }),
		refusedNVMe("5 HRQSIZE 0", capsule.RejectInvalidHRQSIZE, func(d *capsule.RequestData) { d.HRQSIZE = 0 }),
		granted("5 HRQSIZE 65535", func(r *wire.REQ) { nvme(r, func(d *capsule.RequestData) { d.HRQSIZE = 65535 }) }),
		refused("6 responder resources 0", messagesIn, consumer, capsule.RejectInvalidIRD, func(r *wire.REQ) { r.ResponderResources = 0 }),
		granted("6 initiator depth 0", func(r *wire.REQ) { r.InitiatorDepth = 0 }),
		refused("7 nobody listens", invalidService, rdmatransport.RejectInvalidServiceID, 0, func(r *wire.REQ) { r.Service++ }),
		refused("7 another port space", invalidService, rdmatransport.RejectInvalidServiceID, 0, func(r *wire.REQ) { r.Service = 0x0111<<16 | nvmePort }),
		refused("11 path MTU 0", invalidMTU, rdmatransport.RejectInvalidMTU, 0, func(r *wire.REQ) { r.PathMTU = 0 }),
		refused("11 path MTU 6", invalidMTU, rdmatransport.RejectInvalidMTU, 0, func(r *wire.REQ) { r.PathMTU = 6 }),
		refused("11 path MTU 15", invalidMTU, rdmatransport.RejectInvalidMTU, 0, func(r *wire.REQ) { r.PathMTU = 15 }),
		refused("11 path MTU above ours", invalidMTU, rdmatransport.RejectInvalidMTU, 0, func(r *wire.REQ) { r.PathMTU = wire.MTUFor(2048) }),
		refused("11 UC", invalidTransport, rdmatransport.RejectInvalidTransport, 0, func(r *wire.REQ) { r.Transport = wire.TransportUC }),
		refused("11 RD", invalidTransport, rdmatransport.RejectInvalidTransport, 0, func(r *wire.REQ) { r.Transport = wire.TransportRD }),
		refused("11 transport type 3", invalidTransport, rdmatransport.RejectInvalidTransport, 0, func(r *wire.REQ) { r.Transport = 3 }),
		granted("11 retry counts 7", func(r *wire.REQ) { r.RetryCount, r.RNRRetryCount, r.MaxRetries = 7, 7, 15 }),
		granted("11 retry counts 0", func(r *wire.REQ) { r.RetryCount, r.RNRRetryCount, r.MaxRetries = 0, 0, 0 }),
		refused("11 rdma_cm version 1", invalidHeader, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.Version = 1 }) }),
		refused("11 IP version 0", invalidHeader, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.IPVersion = 0 }) }),
		refused("11 IP version 7", invalidHeader, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.IPVersion = 7 }) }),
		refused("11 IP version 6 over IPv4", cmSource, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.IPVersion = 6 }) }),
		refused("11 another source in the header", cmSource, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.Source[15]++ }) }),
		refused("11 another destination in the header", cmSource, consumer, 0, func(r *wire.REQ) { ip(r, func(h *wire.IPHeader) { h.Destination[15]++ }) }),
		refused("11 local GID not the source", cmSource, rdmatransport.RejectInvalidGID, 0, func(r *wire.REQ) { r.LocalGID[15]++ }),
		refused("11 remote GID not ours", invalidGID, rdmatransport.RejectInvalidGID, 0, func(r *wire.REQ) { r.RemoteGID[15]++ }),
	})
}

// TestIOQueueWithoutController is row 3: the connection is established, but its Connect command fails.
func TestIOQueueWithoutController(t *testing.T) {
	test(t, []attack{{row: "3", run: func(l *lab) {
		c, r := l.gremlin.open()
		nvme(r, func(d *capsule.RequestData) { d.QID, d.CNTLID = 1, 77 })
		c.establish(r)
		cmd := connectCommand(1, 32)
		cmd.SGL = capsule.InCapsuleSGL(0, capsule.ConnectDataSize)
		data := make([]byte, capsule.ConnectDataSize)
		connectData(77).Encode(data)
		l.gremlin.send(c.capsule(cmd, data)...)
		cqe, ok := c.responses()[c.cid]
		// Without DNR: a restarted target does not have the controller any more, and the host has to connect again.
		if want := capsule.StatusConnectInvalidParam; !ok || cqe.Status != want {
			l.t.Errorf("Connect answered %v with %v, want %v", ok, cqe.Status, want)
		}
	}}})
}

func TestDuplicateRequests(t *testing.T) {
	extra := func(l *lab, before uint64, want uint64) {
		l.t.Helper()
		if n := sum(l.device, queuePairs) - before; n != want {
			l.t.Errorf("%d new queue pairs, want %d", n, want)
		}
	}
	test(t, []attack{
		{row: "8 before the REP", counter: duplicateREQ, run: func(l *lab) {
			before := sum(l.device, queuePairs)
			c, r := l.gremlin.open()
			l.gremlin.say(r, r, r)
			c.reply()
			extra(l, before, 1)
			l.gremlin.say(c.rtu())
			c.connect()
		}},
		{row: "8 after the REP", counter: duplicateREQ, run: func(l *lab) {
			before := sum(l.device, queuePairs)
			c, r := l.gremlin.open()
			l.gremlin.say(r)
			first := c.reply()
			l.gremlin.say(r)
			if again := c.reply(); again != first {
				l.t.Errorf("the second REP differs: %+v, %+v", first, again)
			}
			extra(l, before, 1)
			l.gremlin.say(c.rtu())
			c.connect()
		}},
		{row: "8 when established", counter: duplicateREQ, run: func(l *lab) {
			before := sum(l.device, queuePairs)
			c, r := l.gremlin.open()
			c.establish(r)
			c.connect()
			l.gremlin.say(r)
			c.wantSilence()
			extra(l, before, 1)
		}},
		{row: "8 same ID, another queue pair", counter: stale, run: func(l *lab) {
			c, r := l.gremlin.open()
			c.establish(r)
			c.connect()
			r.QPN++
			l.gremlin.restarts(c, r)
		}},
		{row: "8 same queue pair, another ID", counter: stale, run: func(l *lab) {
			c, r := l.gremlin.open()
			c.establish(r)
			c.connect()
			r.LocalID = 0x9999
			l.gremlin.restarts(c, r)
		}},
		{row: "8 refused request again", counter: duplicateREQ, run: func(l *lab) {
			c, r := l.gremlin.open()
			nvme(r, func(d *capsule.RequestData) { d.RECFMT = 9 })
			for range 2 {
				l.gremlin.say(r)
				c.wantREJ(rdmatransport.RejectConsumer, capsule.RejectInvalidRECFMT)
			}
		}},
	})
}

// restarts requires that a host that has forgotten a connection and requests another one by r gets it, and that the
// old one ends.
func (g *gremlin) restarts(old *conn, r *wire.REQ) {
	t := g.l.t
	t.Helper()
	old.alive()
	c := &conn{g: g, qpn: r.QPN, local: r.LocalID, firstPSN: r.StartingPSN}
	g.conns = append(g.conns[:r.QPN-firstQPN], c)
	c.establish(r)
	c.connect()
	c.alive()
	g.send(old.property())
	if n := len(c.responses()) + len(old.responses()); n != 0 {
		t.Errorf("the stale connection gave %d answers", n)
	}
	old.remote = 0 // no connection to disconnect
}

// dropped is a message that gets no answer.
func dropped(row string, n counter, m putter) attack {
	return attack{row: row, counter: n, run: func(l *lab) {
		c := l.gremlin.login()
		l.gremlin.say(m)
		c.wantSilence()
	}}
}

func (g *gremlin) wantDREP(c *conn) {
	g.l.t.Helper()
	ms := g.messages()
	if len(ms) != 1 || ms[0].Attribute != wire.AttrDREP {
		g.l.t.Errorf("DREQ answered by %v, want a DREP", describe(ms))
		return
	}
	var r wire.DREP
	if r.Parse(&ms[0].MAD); r.RemoteID != c.local || r.LocalID != c.remote {
		g.l.t.Errorf("DREP %#x for %#x", r.LocalID, r.RemoteID)
	}
}

func TestMessagesOutOfPlace(t *testing.T) {
	const a, b = 0xaaaa, 0xbbbb
	test(t, []attack{
		dropped("9 REP", unknownID, &wire.REP{LocalID: a, RemoteID: b, QPN: 0x300}),
		dropped("9 RTU", unknownID, &wire.RTU{LocalID: a, RemoteID: b}),
		dropped("9 DREP", unknownID, &wire.DREP{LocalID: a, RemoteID: b}),
		dropped("9 REJ", unknownID, &wire.REJ{LocalID: a, RemoteID: b, Reason: 28}),
		dropped("9 REJ without our ID", unknownID, &wire.REJ{LocalID: a, Reason: 4}),
		dropped("9 MRA of a REQ", unknownID, &wire.MRA{LocalID: a, RemoteID: b, Message: wire.MessageREQ}),
		dropped("9 MRA of a REP", unknownID, &wire.MRA{LocalID: a, RemoteID: b, Message: wire.MessageREP}),
		dropped("9 MRA of nothing", wrongState, &wire.MRA{LocalID: a, RemoteID: b, Message: wire.MessageOther}),
		dropped("9 REQ without an ID", malformed, &wire.REQ{QPN: 0x300}),
		dropped("9 REQ from queue pair 1", malformed, &wire.REQ{LocalID: a, QPN: 1}),
		dropped("9 REQ from the multicast queue pair", malformed, &wire.REQ{LocalID: a, QPN: 0xffffff}),
		{row: "9 unknown DREQ", counter: unknownDREQ, run: func(l *lab) {
			l.gremlin.say(&wire.DREQ{LocalID: a, RemoteID: b})
			l.gremlin.wantDREP(&conn{local: a, remote: b})
		}},
		{row: "9 RTU never comes", counter: cmTimeouts, run: func(l *lab) {
			c, r := l.gremlin.open()
			l.gremlin.say(r)
			c.reply()
			time.Sleep(8 * time.Second) // less than the timeout of a silent connection
			c.remote = 0                // no connection to disconnect
			l.gremlin.mads = nil
			if n := sum(l.device, queuePairs); n != 2 {
				l.t.Errorf("%d queue pairs, want the honest host's 2", n)
			}
		}},
		{row: "9 data instead of the RTU", run: func(l *lab) {
			c, r := l.gremlin.open()
			l.gremlin.say(r)
			c.reply()
			c.connect()
			l.gremlin.linger(30 * time.Second)
			c.alive()
		}},
		{row: "124 silence after Connect, without keep alive", run: func(l *lab) {
			c, silent := l.gremlin.login(), l.gremlin.login()
			silent.mute = true
			l.gremlin.linger(time.Minute)
			silent.wantGone()
			c.alive()
		}},
		{row: "9 silence after the RTU", run: func(l *lab) {
			c, r := l.gremlin.open()
			c.establish(r)
			time.Sleep(11 * time.Second)
			c.wantGone()
		}},
		{row: "9 DREQ twice", run: func(l *lab) {
			c := l.gremlin.login()
			c.gone = true
			for range 2 {
				l.gremlin.say(c.dreq())
				l.gremlin.wantDREP(c)
			}
		}},
		{row: "9 DREQ with another ID of the peer's", counter: unknownDREQ, run: func(l *lab) {
			c := l.gremlin.login()
			other := conn{local: c.local + 0x100, remote: c.remote}
			l.gremlin.say(other.dreq())
			l.gremlin.wantDREP(&other)
			c.alive()
		}},
		{row: "9 a stranger's DREQ", counter: cmSource, run: func(l *lab) {
			c := l.gremlin.login()
			stranger := newGremlin(l, strangerAddr)
			stranger.say(c.dreq(), &wire.REJ{LocalID: c.local, RemoteID: c.remote, Reason: 28})
			stranger.wantDREP(c) // as for an unknown ID
			c.alive()
			l.must(stranger.group.Close())
		}},
		{row: "9 REQ after DREQ in time-wait", run: func(l *lab) {
			c, r := l.gremlin.open()
			c.establish(r)
			c.connect()
			l.gremlin.say(c.dreq())
			l.gremlin.wantDREP(c)
			c.firstPSN, c.msn = 5, 0
			r.StartingPSN = 5
			c.establish(r)
			c.connect()
		}},
		{row: "9 RTU twice", counter: func(s *softroce.Stats) uint64 { return s.CM.DuplicateRTU }, run: func(l *lab) {
			c := l.gremlin.login()
			l.gremlin.say(c.rtu())
			c.wantSilence()
		}},
		{row: "9 REJ of a connection that stands", run: func(l *lab) {
			c := l.gremlin.login()
			l.gremlin.say(&wire.REJ{LocalID: c.local, RemoteID: c.remote, Message: wire.MessageOther, Reason: 28})
			c.gone = true
			c.wantGone()
		}},
	})
}

// badMessage is a packet to queue pair 1 that is dropped.
func badMessage(row string, n counter, change func(p *wire.Packet)) attack {
	return attack{row: row, counter: n, run: func(l *lab) {
		c := l.gremlin.login()
		_, r := l.gremlin.open()
		var m wire.MAD
		r.Put(&m, transaction)
		p := datagram(&m)
		change(&p)
		p.Pad = uint8(-len(p.Payload) & 3)
		l.gremlin.send(p)
		c.wantSilence()
	}}
}

func TestBadMessages(t *testing.T) {
	test(t, []attack{
		badMessage("10 base version", badMAD, func(p *wire.Packet) { p.Payload[0] = 2 }),
		badMessage("10 class", badMAD, func(p *wire.Packet) { p.Payload[1] = 3 }),
		badMessage("10 class version", badMAD, func(p *wire.Packet) { p.Payload[2] = 1 }),
		badMessage("10 method", badMAD, func(p *wire.Packet) { p.Payload[3] = 0x81 }),
		badMessage("10 attribute 0", unknownAttribute, func(p *wire.Packet) { p.Payload[17] = 0 }),
		badMessage("10 SIDR_REQ", unknownAttribute, func(p *wire.Packet) { p.Payload[17] = 0x17 }),
		badMessage("10 LAP", unknownAttribute, func(p *wire.Packet) { p.Payload[17] = 0x19 }),
		badMessage("10 255 bytes", badMAD, func(p *wire.Packet) { p.Payload = p.Payload[:255] }),
		badMessage("10 260 bytes", badMAD, func(p *wire.Packet) { p.Payload = append(p.Payload, 1, 2, 3, 4) }),
		badMessage("10 1 byte", badMAD, func(p *wire.Packet) { p.Payload = p.Payload[:1] }),
		badMessage("10 no byte", badMAD, func(p *wire.Packet) { p.Payload = nil }),
		badMessage("10 all ones", badMAD, func(p *wire.Packet) { p.Payload = bytes.Repeat([]byte{0xff}, 256) }),
		badMessage("10 all zero", badMAD, func(p *wire.Packet) { p.Payload = make([]byte, 256) }),
		badMessage("10 Q_Key", wrongQKey, func(p *wire.Packet) { p.DETH.QKey = 0x11111111 }),
		badMessage("10 P_Key", cmPKey, func(p *wire.Packet) { p.PKey = 1 }),
		badMessage("10 RC SEND", notUD, func(p *wire.Packet) { p.Opcode = wire.RCSendOnly }),
		badMessage("10 UD SEND with immediate", notUD, func(p *wire.Packet) { p.Opcode = wire.UDSendOnlyImm }),
	})
}
