package badinput

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const mtu = 1024 // bytes of payload, in a network with an MTU of 1500

// A gremlin is a raw peer: an address without any protocol engine. It sends what the test asks for, and acknowledges
// what arrives.
type gremlin struct {
	l     *lab
	addr  netip.Addr
	to    netip.Addr
	group udp.Group
	port  udp.Port
	batch *udp.RecvBatch
	icrc  wire.ICRC
	tos   uint8

	mads   []message // received, not yet checked
	conns  []*conn   // by queue pair number, from firstQPN up
	nextID wire.CommID
}

// A message is a message of connection management.
type message struct {
	wire.MADHeader
	wire.MAD
}

const firstQPN = 0x200

func newGremlin(l *lab, addr netip.Addr) *gremlin {
	l.t.Helper()
	group, err := udp.Join(l.network, addr, 1)
	l.must(err)
	return over(l, group)
}

// forger returns a gremlin that sends from another host's address, which gets the answers.
func forger(l *lab, addr netip.Addr) *gremlin {
	l.t.Helper()
	g := over(l, udp.Forge(l.network, addr))
	g.nextID = 0x7000
	return g
}

func over(l *lab, group udp.Group) *gremlin {
	port := group.Ports()[0]
	return &gremlin{l: l, addr: group.Addr(), to: targetAddr, group: group, port: port, batch: port.NewBatch(), nextID: 0x700}
}

// assemble returns the datagram of a packet. p.Pad bytes are appended, whatever the payload's length.
func (g *gremlin) assemble(p *wire.Packet) []byte {
	b := append(wire.AppendHeaders(nil, p), p.Payload...)
	return g.seal(append(b, make([]byte, p.Pad)...))
}

// seal appends the ICRC to b.
func (g *gremlin) seal(b []byte) []byte {
	path := wire.NewPath(g.port.Sources()[0], netip.AddrPortFrom(g.to, wire.Port))
	return binary.LittleEndian.AppendUint32(b, g.icrc.Sum(&path, 0, b[:wire.BTHSize], [][]byte{b[wire.BTHSize:]}, 0))
}

// throw sends datagrams that arrive at the same time.
func (g *gremlin) throw(datagrams ...[]byte) {
	g.l.t.Helper()
	var ms []udp.Message
	for _, b := range datagrams {
		ms = append(ms, udp.Message{To: netip.AddrPortFrom(g.to, wire.Port), TOS: g.tos, Pieces: [][]byte{b}})
	}
	if n := g.port.Send(ms); n != len(ms) {
		g.l.t.Fatalf("the network took %d of %d datagrams", n, len(ms))
	}
}

func (g *gremlin) send(ps ...wire.Packet) {
	g.l.t.Helper()
	var out [][]byte
	for i := range ps {
		out = append(out, g.assemble(&ps[i]))
	}
	g.throw(out...)
}

// settle lets more time pass than a reorder window, and handles what has arrived.
func (g *gremlin) settle() {
	g.l.t.Helper()
	for range 4 { // answers to our acknowledgements arrive too
		time.Sleep(10 * time.Millisecond)
		n, err := g.port.Recv(g.batch)
		g.l.must(err)
		for i := range n {
			g.receive(&g.batch.Datagrams[i])
		}
	}
}

// linger lets time pass, and acknowledges what arrives meanwhile.
func (g *gremlin) linger(d time.Duration) {
	g.l.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		g.settle()
	}
}

func (g *gremlin) receive(d *udp.Datagram) {
	g.l.t.Helper()
	var p wire.Packet
	path := wire.NewPath(d.From, netip.AddrPortFrom(g.addr, wire.Port))
	if fault := wire.Parse(d.Data, &p); fault != wire.OK || !g.icrc.Verify(&path, uint16(d.ID), d.Data) {
		g.l.t.Errorf("a bad packet came: %v, %x", fault, d.Data)
		return
	}
	p.Payload = append([]byte(nil), p.Payload...)
	switch {
	case p.DestQPN == wire.CMQPN:
		g.manage(p.Payload)
	case int(p.DestQPN)-firstQPN < len(g.conns):
		g.conns[p.DestQPN-firstQPN].receive(&p)
	default:
		g.l.t.Errorf("a packet for queue pair %#x came", p.DestQPN)
	}
}

// A conn is one connection of a gremlin.
type conn struct {
	g             *gremlin
	qpn, peer     rdmatransport.QPN
	local, remote wire.CommID
	psn           wire.PSN // of the next packet
	firstPSN      wire.PSN // of the peer's packets
	msn           wire.MSN
	mute          bool          // do not acknowledge
	gone          bool          // the peer has ended it
	got           []wire.Packet // received, not yet checked
	cid           capsule.CID
}

func (c *conn) receive(p *wire.Packet) {
	c.got = append(c.got, *p)
	if p.Opcode.Flags()&wire.FlagRequest == 0 || c.mute {
		return
	}
	c.msn = c.msn.Add(1)
	c.g.send(c.ack(p.PSN, wire.SyndromeAck))
}

func (c *conn) ack(psn wire.PSN, s wire.Syndrome) wire.Packet {
	return wire.Packet{Opcode: wire.RCAck, PKey: wire.DefaultPKey, DestQPN: c.peer, PSN: psn, AETH: wire.AETH{Syndrome: s, MSN: c.msn}}
}

// next returns a packet with the next sequence number.
func (c *conn) next(op wire.Opcode, payload []byte) wire.Packet {
	p := wire.Packet{
		Opcode: op, PKey: wire.DefaultPKey, DestQPN: c.peer, PSN: c.psn, AckReq: true,
		Payload: payload, Pad: uint8(-len(payload) & 3),
	}
	c.psn = c.psn.Add(1)
	return p
}

// capsule returns the packets of a command.
func (c *conn) capsule(cmd capsule.Command, data []byte) []wire.Packet {
	c.cid++
	cmd.CID = c.cid
	b := make([]byte, capsule.CommandSize)
	cmd.Encode(b)
	b = append(b, data...)
	if len(b) <= mtu {
		return []wire.Packet{c.next(wire.RCSendOnly, b)}
	}
	ps := []wire.Packet{c.next(wire.RCSendFirst, b[:mtu])}
	for b = b[mtu:]; len(b) > mtu; b = b[mtu:] {
		ps = append(ps, c.next(wire.RCSendMiddle, b[:mtu]))
	}
	return append(ps, c.next(wire.RCSendLast, b))
}

// property returns a Property Get, the most harmless command.
func (c *conn) property() wire.Packet {
	cmd := capsule.FabricsCommand(capsule.FabricsPropertyGet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyVS)}.Put(&cmd)
	return c.capsule(cmd, nil)[0]
}

// responses returns the completions that have arrived, by command identifier.
func (c *conn) responses() map[capsule.CID]capsule.Completion {
	c.g.l.t.Helper()
	c.g.settle()
	out := map[capsule.CID]capsule.Completion{}
	for i := range c.got {
		if c.got[i].Opcode.Flags()&wire.FlagSend == 0 {
			continue
		}
		cqe, err := capsule.DecodeCompletion(c.got[i].Payload)
		c.g.l.must(err)
		out[cqe.CID] = cqe
	}
	c.got = nil
	return out
}

// do sends the packets of one command and requires that it succeeds.
func (c *conn) do(ps ...wire.Packet) {
	c.g.l.t.Helper()
	c.g.send(ps...)
	cqe, ok := c.responses()[c.cid]
	if !ok || !cqe.Status.OK() {
		c.g.l.t.Fatalf("command %d: answered %v, status %v", c.cid, ok, cqe.Status)
	}
}

// alive requires that the connection works.
func (c *conn) alive() {
	c.g.l.t.Helper()
	c.do(c.property())
}

// acks returns the acknowledgements that have arrived.
func (c *conn) acks() (out []wire.Packet) {
	c.g.l.t.Helper()
	c.g.settle()
	for _, p := range c.got {
		if p.Opcode == wire.RCAck {
			out = append(out, p)
		}
	}
	c.got = nil
	return out
}

// fresh removes acknowledgements of earlier packets, which may be repeated in case they were lost.
func (c *conn) fresh() (out []wire.Packet) {
	for _, p := range c.got {
		if p.Opcode != wire.RCAck || p.AETH.Syndrome.Kind() != wire.AETHAck || !p.PSN.Before(c.psn) {
			out = append(out, p)
		}
	}
	return out
}

// wantSilence requires that there was no answer and that the connection works.
func (c *conn) wantSilence() {
	c.g.l.t.Helper()
	c.g.settle()
	if got := c.fresh(); len(got) != 0 || len(c.g.mads) != 0 {
		c.g.l.t.Errorf("answered %+v and %d messages, want nothing", got, len(c.g.mads))
	}
	c.got = nil
	c.alive()
}

// wantFatal requires one NAK with that syndrome, that the peer has ended the connection, and that later packets are
// not executed.
func (c *conn) wantFatal(s wire.Syndrome) {
	t := c.g.l.t
	t.Helper()
	naks := 0
	for _, p := range c.acks() {
		if kind := p.AETH.Syndrome.Kind(); kind == wire.AETHNAK && p.AETH.Syndrome == s {
			naks++
		} else if kind != wire.AETHAck {
			t.Errorf("answered %v", p.AETH.Syndrome)
		}
	}
	if naks != 1 {
		t.Errorf("%d NAKs %#x, want 1", naks, uint8(s))
	}
	c.wantGone()
}

// wantGone requires that the peer has ended the connection and drops later packets.
func (c *conn) wantGone() {
	t := c.g.l.t
	t.Helper()
	c.g.settle()
	if !c.gone {
		t.Error("the connection was not ended")
	}
	c.got = nil
	c.g.send(c.property())
	if r := c.responses(); len(r) != 0 {
		t.Errorf("a command after the end was answered: %v", r)
	}
}
