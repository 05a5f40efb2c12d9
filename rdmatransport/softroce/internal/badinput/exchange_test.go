package badinput

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// putter is a message of connection management.
type putter interface{ Put(*wire.MAD, uint64) }

const transaction = 0x1234

func datagram(m *wire.MAD) wire.Packet {
	return wire.Packet{
		Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQPN: wire.CMQPN,
		DETH: wire.DETH{QKey: wire.CMQKey, SrcQPN: wire.CMQPN}, Payload: m[:],
	}
}

// say sends messages that arrive at the same time.
func (g *gremlin) say(ms ...putter) {
	g.l.t.Helper()
	var ps []wire.Packet
	for _, m := range ms {
		var mad wire.MAD
		m.Put(&mad, transaction)
		ps = append(ps, datagram(&mad))
	}
	g.send(ps...)
}

// manage handles a received message, and answers the peer's DREQs.
func (g *gremlin) manage(b []byte) {
	g.l.t.Helper()
	m, h, fault := wire.ParseMAD(b)
	if fault != wire.OK {
		g.l.t.Errorf("a bad message came: %v", fault)
		return
	}
	if h.Attribute != wire.AttrDREQ {
		g.mads = append(g.mads, message{h, *m})
		return
	}
	var r wire.DREQ
	r.Parse(m)
	for _, c := range g.conns {
		if c.local == r.RemoteID && c.remote == r.LocalID {
			c.gone = true
		}
	}
	g.say(&wire.DREP{LocalID: r.RemoteID, RemoteID: r.LocalID})
}

// messages returns the messages that have arrived.
func (g *gremlin) messages() []message {
	g.l.t.Helper()
	g.settle()
	out := g.mads
	g.mads = nil
	return out
}

// nvme changes the NVMe part of a request's private data.
func nvme(r *wire.REQ, change func(d *capsule.RequestData)) {
	d, _ := capsule.DecodeRequestData(r.PrivateData[wire.IPHeaderSize:])
	change(&d)
	d.Encode(r.PrivateData[wire.IPHeaderSize:])
}

// ip changes the RDMA CM's header of a request.
func ip(r *wire.REQ, change func(h *wire.IPHeader)) {
	var h wire.IPHeader
	h.Parse(&r.PrivateData)
	change(&h)
	h.Put(&r.PrivateData)
}

// open creates a connection and returns a correct request for it, for an admin queue with 32 entries.
func (g *gremlin) open() (*conn, *wire.REQ) {
	c := &conn{g: g, qpn: firstQPN + rdmatransport.QPN(len(g.conns)), local: g.nextID, firstPSN: 0xfffffe}
	g.nextID++
	g.conns = append(g.conns, c)
	r := &wire.REQ{
		LocalID: c.local, Service: wire.TCPService(nvmePort), GUID: 0x1111, QPN: c.qpn,
		ResponderResources: 16, InitiatorDepth: 16, StartingPSN: c.firstPSN,
		RemoteTimeout: 18, LocalTimeout: 18, MaxRetries: 3, RetryCount: 7, RNRRetryCount: 7,
		PKey: wire.DefaultPKey, PathMTU: wire.MTUFor(mtu), LocalLID: 0xffff, RemoteLID: 0xffff,
		LocalGID: wire.GIDFor(g.addr), RemoteGID: wire.GIDFor(g.to), HopLimit: 64, AckTimeout: 14,
	}
	h := wire.NewIPHeader(netip.AddrPortFrom(g.addr, 40000), g.to)
	h.Put(&r.PrivateData)
	nvme(r, func(d *capsule.RequestData) { d.HRQSIZE, d.HSQSIZE = 32, 31 })
	return c, r
}

// reply requires one REP and returns it.
func (c *conn) reply() wire.REP {
	t := c.g.l.t
	t.Helper()
	ms := c.g.messages()
	if len(ms) != 1 || ms[0].Attribute != wire.AttrREP || ms[0].TID != transaction {
		t.Fatalf("answered %v, want a REP", describe(ms))
	}
	var rep wire.REP
	rep.Parse(&ms[0].MAD)
	if rep.RemoteID != c.local {
		t.Fatalf("REP for %#x, want %#x", rep.RemoteID, c.local)
	}
	c.remote, c.peer, c.psn = rep.LocalID, rep.QPN, rep.StartingPSN
	return rep
}

func describe(ms []message) (out []any) {
	for _, m := range ms {
		out = append(out, m.Attribute)
		if m.Attribute == wire.AttrREJ {
			var r wire.REJ
			r.Parse(&m.MAD)
			out = append(out, r.Reason, r.PrivateData[:4])
		}
	}
	return out
}

func (c *conn) rtu() *wire.RTU { return &wire.RTU{LocalID: c.local, RemoteID: c.remote} }

func (c *conn) dreq() *wire.DREQ {
	return &wire.DREQ{LocalID: c.local, RemoteID: c.remote, RemoteQPN: c.peer}
}

// establish makes the connection with request r.
func (c *conn) establish(r *wire.REQ) {
	c.g.l.t.Helper()
	c.g.say(r)
	c.reply()
	c.g.say(c.rtu())
	c.g.settle()
}

// connect sends the Connect command with its data in the capsule.
func (c *conn) connect() {
	c.g.l.t.Helper()
	cmd := connectCommand(0, 32)
	cmd.SGL = capsule.InCapsuleSGL(0, capsule.ConnectDataSize)
	data := make([]byte, capsule.ConnectDataSize)
	connectData(capsule.ControllerIDDynamic).Encode(data)
	c.do(c.capsule(cmd, data)...)
}

// login makes a connection and an association.
func (g *gremlin) login() *conn {
	g.l.t.Helper()
	c, r := g.open()
	c.establish(r)
	c.connect()
	return c
}

// leave disconnects the remaining connections.
func (g *gremlin) leave() {
	g.l.t.Helper()
	g.settle()
	for _, c := range g.conns {
		if c.remote != 0 && !c.gone {
			c.gone = true
			g.say(c.dreq())
		}
	}
	g.settle()
	g.mads = nil
}

// wantREJ requires one REJ of a request, with the given NVMe status for reason 28.
func (c *conn) wantREJ(reason rdmatransport.RejectReason, status capsule.RejectStatus) {
	t := c.g.l.t
	t.Helper()
	ms := c.g.messages()
	if len(ms) != 1 || ms[0].Attribute != wire.AttrREJ {
		t.Errorf("answered %v, want a REJ", describe(ms))
		return
	}
	var r wire.REJ
	r.Parse(&ms[0].MAD)
	d, err := capsule.DecodeRejectData(r.PrivateData[:])
	if err != nil || r.RemoteID != c.local || r.Message != wire.MessageREQ || r.Reason != reason || d.STS != status || d.RECFMT != 0 {
		t.Errorf("REJ of %#x: %v, %+v, want reason %d with status %d", r.RemoteID, r.Reason, d, reason, status)
	}
}
