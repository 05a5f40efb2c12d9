package badinput

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

func fault(f wire.Fault) counter {
	return func(s *softroce.Stats) uint64 { return s.Faults[f] }
}

func unknownQPN(s *softroce.Stats) uint64   { return s.UnknownQPN }
func notConnected(s *softroce.Stats) uint64 { return s.NotConnected }
func mismatch(s *softroce.Stats) uint64     { return s.SourceMismatch }
func marks(s *softroce.Stats) uint64        { return s.CongestionMarks }
func wrongPKey(s *softroce.Stats) uint64    { return s.RC.WrongPKey }
func cnps(s *softroce.Stats) uint64         { return s.RC.CNPsGot }
func notRC(s *softroce.Stats) uint64        { return s.RC.NotRC }
func errorNAKs(s *softroce.Stats) uint64    { return s.RC.ErrorNAKsSent }
func sequenceNAKs(s *softroce.Stats) uint64 { return s.RC.SequenceNAKsSent }
func rnrNAKs(s *softroce.Stats) uint64      { return s.RC.RNRNAKsSent }
func farAhead(s *softroce.Stats) uint64     { return s.RC.FarAhead }
func duplicates(s *softroce.Stats) uint64   { return s.RC.Duplicates }
func outOfOrder(s *softroce.Stats) uint64   { return s.RC.OutOfOrder }
func ghosts(s *softroce.Stats) uint64       { return s.RC.GhostAcks }
func badAcks(s *softroce.Stats) uint64      { return s.RC.BadAcks }
func oldAcks(s *softroce.Stats) uint64      { return s.RC.OldAcks }

// drops returns the number of packets that a device did not pass to a queue pair.
func drops(s *softroce.Stats) (n uint64) {
	for _, f := range s.Faults {
		n += f
	}
	return n + s.UnknownQPN + s.NotConnected + s.SourceMismatch
}

// ignored is an attack with datagrams that get no answer and do no harm; make returns them for a connection.
func ignored(row string, n counter, make func(c *conn) [][]byte) attack {
	return attack{row: row, counter: n, run: func(l *lab) {
		c := l.gremlin.login()
		psn := c.psn
		l.gremlin.throw(make(c)...)
		c.psn = psn // was not accepted
		c.wantSilence()
	}}
}

// ignoredPacket is an attack with a changed Property Get that gets no answer.
func ignoredPacket(row string, n counter, change func(p *wire.Packet)) attack {
	return ignored(row, n, func(c *conn) [][]byte {
		p := c.property()
		change(&p)
		return [][]byte{c.g.assemble(&p)}
	})
}

// accepted is a Property Get, changed after assembly, that still works.
func accepted(row string, n counter, change func(g *gremlin, b []byte) []byte) attack {
	return attack{row: row, counter: n, run: func(l *lab) {
		c := l.gremlin.login()
		p := c.property()
		b := l.gremlin.assemble(&p)
		b = b[:len(b)-wire.ICRCSize]
		l.gremlin.throw(l.gremlin.seal(change(l.gremlin, b)))
		if _, ok := c.responses()[c.cid]; !ok {
			l.t.Error("no answer")
		}
		l.gremlin.tos = 0
		c.alive()
	}}
}

// fatal is an attack with packets that get a NAK and end the connection.
func fatal(row string, s wire.Syndrome, make func(c *conn) []wire.Packet) attack {
	return attack{row: row, counter: errorNAKs, run: func(l *lab) {
		c := l.gremlin.login()
		l.gremlin.send(make(c)...)
		c.wantFatal(s)
	}}
}

func one(make func(c *conn) wire.Packet) func(c *conn) []wire.Packet {
	return func(c *conn) []wire.Packet { return []wire.Packet{make(c)} }
}

func TestPacketsNotLetIn(t *testing.T) {
	attacks := []attack{
		ignored("12 headers cut", fault(wire.ShortPacket), func(c *conn) [][]byte {
			p := c.property()
			b := c.g.assemble(&p)
			return [][]byte{b[:0], b[:1], b[:11], b[:12], b[:15]}
		}),
		ignored("12 RETH missing", fault(wire.ShortPacket), func(c *conn) [][]byte {
			p := c.next(wire.RCWriteOnly, nil)
			b := wire.AppendHeaders(nil, &p)
			return [][]byte{c.g.seal(b[:wire.BTHSize]), c.g.seal(b[:len(b)-4])}
		}),
		ignored("13 pad without payload", fault(wire.BadPad), func(c *conn) [][]byte {
			p := c.next(wire.RCSendOnly, nil)
			p.Pad = 3
			return [][]byte{c.g.seal(wire.AppendHeaders(nil, &p))}
		}),
		ignored("13 length no multiple of 4", fault(wire.BadPad), func(c *conn) [][]byte {
			p := c.property()
			p.Payload = p.Payload[:63]
			return [][]byte{c.g.assemble(&p)}
		}),
		fatal("13 pad in a FIRST", wire.SyndromeInvalidRequest, one(func(c *conn) wire.Packet {
			p := c.next(wire.RCSendFirst, make([]byte, mtu-1))
			p.Pad = 1
			return p
		})),
		ignored("14 every bit", drops, func(c *conn) (out [][]byte) {
			p := c.property()
			b := c.g.assemble(&p)
			for i := range b {
				for bit := 0; bit < 8 && i != 4; bit++ { // byte 4 may change on the way
					flipped := bytes.Clone(b)
					flipped[i] ^= 1 << bit
					out = append(out, flipped)
				}
			}
			return out
		}),
		ignored("14 wrong ICRC", fault(wire.BadICRC), func(c *conn) [][]byte {
			p := c.property()
			b := c.g.assemble(&p)
			b[len(b)-1] ^= 0xff
			return [][]byte{b}
		}),
		ignoredPacket("15 unknown QPN", unknownQPN, func(p *wire.Packet) { p.DestQPN ^= 0x1000 }),
		ignoredPacket("15 QPN 0", unknownQPN, func(p *wire.Packet) { p.DestQPN = 0 }),
		ignoredPacket("15 multicast QPN", unknownQPN, func(p *wire.Packet) { p.DestQPN = 0xffffff }),
		ignoredPacket("16 transport version 1", fault(wire.BadVersion), func(p *wire.Packet) { p.Version = 1 }),
		ignoredPacket("16 transport version 15", fault(wire.BadVersion), func(p *wire.Packet) { p.Version = 15 }),
		ignoredPacket("16 P_Key 1", wrongPKey, func(p *wire.Packet) { p.PKey = 1 }),
		ignoredPacket("16 P_Key 8000h", wrongPKey, func(p *wire.Packet) { p.PKey = 0x8000 }),
		accepted("16 reserved bits", nil, func(_ *gremlin, b []byte) []byte {
			b[4] |= 0x3f
			b[8] |= 0x7f
			return b
		}),
		ignoredPacket("28 UD SEND to an RC queue pair", notRC, func(p *wire.Packet) { p.Opcode = wire.UDSendOnly }),
		ignored("28 CNP", cnps, func(c *conn) [][]byte {
			p := c.next(wire.CNP, make([]byte, 16))
			p.AckReq, p.BECN = false, true
			return [][]byte{c.g.assemble(&p)}
		}),
		accepted("31 CE mark", marks, func(g *gremlin, b []byte) []byte {
			g.tos = 3
			return b
		}),
		ignored("31 two packets in one datagram", fault(wire.BadICRC), func(c *conn) [][]byte {
			p := c.property()
			b := c.g.assemble(&p)
			return [][]byte{append(b, b...)}
		}),
	}
	for _, op := range []wire.Opcode{0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x24, 0x44, 0x4c, 0x66, 0x80, 0xff} {
		attacks = append(attacks, ignoredPacket(fmt.Sprintf("28 opcode %#02x", uint8(op)), fault(wire.UnknownOpcode),
			func(p *wire.Packet) { p.Opcode = op }))
	}
	test(t, attacks)
}

// TestEveryFlippedBitIsCounted completes row 14: every flipped bit is detected.
func TestEveryFlippedBitIsCounted(t *testing.T) {
	test(t, []attack{{row: "14", run: func(l *lab) {
		c := l.gremlin.login()
		p := c.property()
		b := l.gremlin.assemble(&p)
		before := sum(l.device, drops)
		bits := uint64(0)
		for i := range b {
			for bit := 0; bit < 8 && i != 4; bit++ {
				b[i] ^= 1 << bit
				l.gremlin.throw(b)
				b[i] ^= 1 << bit
				bits++
			}
		}
		l.gremlin.settle()
		if n := sum(l.device, drops) - before; n != bits {
			l.t.Errorf("%d of %d dropped", n, bits)
		}
		l.gremlin.throw(b)
		if len(c.responses()) != 1 {
			l.t.Error("the packet itself was not accepted")
		}
	}}})
}

func TestQueuePairsThatAreNotUp(t *testing.T) {
	test(t, []attack{
		{row: "15 in the initial state", counter: notConnected, atHost: true, run: func(l *lab) {
			c := l.gremlin.login()
			l.host.withQueuePair(func(qpn rdmatransport.QPN) {
				l.gremlin.to = hostAddr
				p := c.property()
				p.DestQPN = qpn
				l.gremlin.send(p)
				l.gremlin.settle()
				l.gremlin.to = targetAddr
			})
			if len(c.got) != 0 {
				l.t.Errorf("answered %+v", c.got)
			}
			c.psn = c.psn.Sub(1)
			c.alive()
		}},
		{row: "15 in the error state, 27", counter: unknownQPN, run: func(l *lab) {
			c := l.gremlin.login()
			bad := c.next(wire.RCSendMiddle, make([]byte, mtu))
			write := c.property()
			l.gremlin.send(bad, write, c.property(), c.next(wire.RCReadRequest, nil))
			c.wantFatal(wire.SyndromeInvalidRequest)
		}},
		{row: "17 a stranger's packet", counter: mismatch, run: func(l *lab) {
			c := l.gremlin.login()
			stranger := newGremlin(l, strangerAddr)
			stranger.send(c.property(), c.ack(c.firstPSN, wire.SyndromeInvalidRequest), c.next(wire.RCSendMiddle, nil))
			stranger.settle()
			c.psn = c.psn.Sub(2)
			c.wantSilence()
			l.must(stranger.group.Close())
		}},
	})
}

func TestBadRequests(t *testing.T) {
	const invalid, access = wire.SyndromeInvalidRequest, wire.SyndromeRemoteAccess
	full := make([]byte, mtu)
	rdma := func(op wire.Opcode, n uint32, payload []byte) func(c *conn) []wire.Packet {
		return one(func(c *conn) wire.Packet {
			p := c.next(op, payload)
			p.RETH = wire.RETH{VA: 1 << 46, RKey: 0x1234, DMALen: n}
			p.AtomicETH = wire.AtomicETH{VA: 1 << 46, RKey: 0x1234, SwapAdd: 1}
			return p
		})
	}
	series := func(ops ...wire.Opcode) func(c *conn) []wire.Packet {
		return func(c *conn) (out []wire.Packet) {
			for _, op := range ops {
				payload := full
				if op.Flags()&wire.FlagEnd != 0 {
					payload = full[:8]
				}
				out = append(out, c.next(op, payload))
			}
			return out
		}
	}
	sized := func(op wire.Opcode, n int) func(c *conn) []wire.Packet {
		return one(func(c *conn) wire.Packet { return c.next(op, make([]byte, n)) })
	}
	test(t, []attack{
		fatal("18 WRITE", invalid, rdma(wire.RCWriteOnly, 8, full[:8])),
		fatal("18 WRITE of nothing", invalid, rdma(wire.RCWriteOnly, 0, nil)),
		fatal("18 WRITE FIRST", invalid, rdma(wire.RCWriteFirst, 2*mtu, full)),
		fatal("18 WRITE with immediate", invalid, rdma(wire.RCWriteOnlyImm, 8, full[:8])),
		fatal("18 WRITE of nothing with immediate", invalid, rdma(wire.RCWriteOnlyImm, 0, nil)),
		fatal("18 READ", invalid, rdma(wire.RCReadRequest, 8, nil)),
		fatal("18 READ of nothing", invalid, rdma(wire.RCReadRequest, 0, nil)),
		fatal("18 CmpSwap", invalid, rdma(wire.RCCompareSwap, 0, nil)),
		fatal("18 FetchAdd", invalid, rdma(wire.RCFetchAdd, 0, nil)),
		fatal("21 READ of more than 2^31", invalid, rdma(wire.RCReadRequest, 1<<31+1, nil)),
		fatal("21 WRITE of more than 2^31", invalid, rdma(wire.RCWriteFirst, 1<<31+1, full)),
		fatal("22 MIDDLE without FIRST", invalid, series(wire.RCSendMiddle)),
		fatal("22 LAST without FIRST", invalid, series(wire.RCSendLast)),
		fatal("22 WRITE MIDDLE without FIRST", invalid, series(wire.RCWriteMiddle)),
		fatal("22 FIRST twice", invalid, series(wire.RCSendFirst, wire.RCSendFirst)),
		fatal("22 ONLY inside a message", invalid, series(wire.RCSendFirst, wire.RCSendOnly)),
		fatal("22 WRITE LAST inside a SEND", invalid, series(wire.RCSendFirst, wire.RCWriteLast)),
		fatal("23 FIRST too short", invalid, sized(wire.RCSendFirst, mtu-4)),
		fatal("23 FIRST too long", invalid, sized(wire.RCSendFirst, mtu+4)),
		fatal("23 ONLY too long", invalid, sized(wire.RCSendOnly, mtu+4)),
		fatal("23 empty LAST", invalid, func(c *conn) []wire.Packet {
			return append(series(wire.RCSendFirst)(c), c.next(wire.RCSendLast, nil))
		}),
		fatal("26 longer than the receive", invalid, series(wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendMiddle, wire.RCSendMiddle, wire.RCSendMiddle)),
		fatal("29 invalidate a key that is none", access, one(func(c *conn) wire.Packet {
			p := c.property()
			p.Opcode, p.InvKey = wire.RCSendOnlyInv, 0x12345678
			return p
		})),
		{row: "29 immediate", run: func(l *lab) {
			c := l.gremlin.login()
			p := c.property()
			p.Opcode, p.Imm = wire.RCSendOnlyImm, 0x55
			c.do(p)
		}},
		{row: "13 pad that leaves less than a capsule", run: func(l *lab) {
			c := l.gremlin.login()
			p := c.next(wire.RCSendOnly, full[:63])
			l.gremlin.send(p)
			c.g.settle()
			c.wantGone()
		}},
		{row: "26 as long as the receive", run: func(l *lab) {
			c := l.gremlin.login()
			cmd := capsule.FabricsCommand(capsule.FabricsPropertyGet)
			capsule.Property{Size: 4, Offset: uint32(capsule.PropertyVS)}.Put(&cmd)
			c.do(c.capsule(cmd, make([]byte, 4096))...)
		}},
	})
}

func TestPlacesInTheSequence(t *testing.T) {
	ahead := func(row string, by uint32, n counter) attack {
		return attack{row: row, counter: n, run: func(l *lab) {
			c := l.gremlin.login()
			first, second := c.property(), c.property()
			second.PSN = first.PSN.Add(by)
			l.gremlin.send(second, second)
			naks := c.acks()
			switch {
			case n == nil:
			case by > 4096 && len(naks) != 0:
				l.t.Errorf("answered %+v", naks)
			case by <= 4096 && (len(naks) != 1 || naks[0].AETH.Syndrome != wire.SyndromeSequence || naks[0].PSN != first.PSN):
				l.t.Errorf("answered %+v, want one NAK of %#x", naks, first.PSN)
			}
			c.psn = first.PSN.Add(1)
			l.gremlin.send(first)
			want := 1
			if by == 1 {
				c.psn, want = second.PSN.Add(1), 2 // it was kept
			}
			if got := c.responses(); len(got) != want {
				l.t.Errorf("%d answers, want %d", len(got), want)
			}
			if by > 1 && by <= 4096 { // a kept packet is executed in order
				for c.psn != second.PSN {
					l.gremlin.send(c.property())
					c.g.settle()
				}
				c.psn = c.psn.Add(1)
			}
			c.got = nil
			c.alive()
		}}
	}
	test(t, []attack{
		ahead("24 ahead by 1", 1, sequenceNAKs),
		ahead("24 ahead by 1, kept", 1, outOfOrder),
		ahead("24 ahead by 100", 100, sequenceNAKs),
		ahead("24 ahead by 2^23-1", 1<<23-1, farAhead),
		{row: "24 half a window away", counter: duplicates, run: func(l *lab) {
			c := l.gremlin.login()
			p := c.property()
			p.PSN = p.PSN.Add(1 << 23)
			c.psn = c.psn.Sub(1)
			l.gremlin.send(p)
			if n := len(c.responses()); n != 0 {
				l.t.Errorf("%d answers", n)
			}
			c.alive()
		}},
		{row: "24 behind by 1", counter: duplicates, run: func(l *lab) {
			c := l.gremlin.login()
			p := c.property()
			c.do(p)
			l.gremlin.send(p)
			c.g.settle()
			if len(c.got) != 1 || c.got[0].Opcode != wire.RCAck || c.got[0].AETH.Syndrome.Kind() != wire.AETHAck || c.got[0].PSN != p.PSN {
				l.t.Errorf("answered %+v, want one ACK", c.got)
			}
			c.got = nil
			c.alive()
		}},
		{row: "24 wrap", run: func(l *lab) {
			l.highPSN.Store(true)
			c, r := l.gremlin.open()
			l.gremlin.say(r)
			c.reply()
			l.highPSN.Store(false)
			if c.psn != 0xffffff {
				l.t.Fatalf("first PSN %#x", c.psn)
			}
			l.gremlin.say(c.rtu())
			c.connect()
			for range 4 { // the target's own PSNs wrap as well
				c.alive()
			}
		}},
	})
}

func TestBadAcknowledgements(t *testing.T) {
	// ack is an attack with an acknowledgement while the response with the PSN is unacknowledged.
	ack := func(row string, n counter, answer func(c *conn, psn wire.PSN) wire.Packet) attack {
		return attack{row: row, counter: n, run: func(l *lab) {
			c := l.gremlin.login()
			c.mute = true
			l.gremlin.send(c.property())
			time.Sleep(time.Millisecond)
			l.gremlin.settle()
			var psn wire.PSN
			for _, p := range c.got {
				if p.Opcode == wire.RCSendOnly {
					psn = p.PSN
				}
			}
			l.gremlin.send(answer(c, psn))
			time.Sleep(time.Millisecond)
			c.mute, c.got = false, nil
			time.Sleep(time.Second) // the response is retransmitted, so it counts as lost
			l.gremlin.settle()
			c.got = nil
			if len(c.responses()) != 0 {
				l.t.Error("responses do not end")
			}
			c.alive()
		}}
	}
	test(t, []attack{
		ack("25 ACK of what was never sent", ghosts, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn.Add(1), wire.SyndromeAck) }),
		ack("25 NAK of what was never sent", ghosts, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn.Add(7), wire.SyndromeRemoteAccess) }),
		ack("25 RNR NAK of what was never sent", ghosts, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn.Add(7), wire.SyndromeRNR(1)) }),
		ack("25 ACK behind", oldAcks, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn.Sub(5), wire.SyndromeAck) }),
		ack("25 NAK behind", oldAcks, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn.Sub(5), wire.SyndromeRemoteAccess) }),
		ack("25 reserved syndrome", badAcks, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn, 0x40) }),
		ack("25 syndrome with the top bit", badAcks, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn, 0x9f) }),
		ack("25 reserved NAK code", badAcks, func(c *conn, psn wire.PSN) wire.Packet { return c.ack(psn, 0x7f) }),
		ack("25 ACK with payload", badAcks, func(c *conn, psn wire.PSN) wire.Packet {
			p := c.ack(psn, wire.SyndromeAck)
			p.Payload = []byte{1, 2, 3, 4}
			return p
		}),
		ack("25 READ response to nothing", ghosts, func(c *conn, psn wire.PSN) wire.Packet {
			p := c.ack(psn.Add(1), wire.SyndromeAck)
			p.Opcode, p.Payload = wire.RCReadResponseOnly, []byte{1, 2, 3, 4}
			return p
		}),
	})
}

// TestNoReceivePosted is row 30: more commands at a time than the queue has entries. The excess ones are sent again,
// and none is lost.
func TestNoReceivePosted(t *testing.T) {
	test(t, []attack{{row: "30", counter: rnrNAKs, run: func(l *lab) {
		c := l.gremlin.login()
		var ps []wire.Packet
		for range 40 {
			ps = append(ps, c.property())
		}
		l.gremlin.send(ps...)
		answered := c.responsesAndNAK(func(nak wire.Packet) {
			if kind := nak.AETH.Syndrome.Kind(); kind != wire.AETHRNR || nak.PSN != ps[32].PSN {
				l.t.Errorf("answered %v at %#x, want an RNR NAK at %#x", nak.AETH.Syndrome, nak.PSN, ps[32].PSN)
			}
		})
		if len(answered) != 32 {
			l.t.Errorf("%d answers, want 32", len(answered))
		}
		l.gremlin.send(ps[32:]...)
		for id := range c.responses() {
			answered[id] = true
		}
		if len(answered) != 40 {
			l.t.Errorf("%d answers, want 40", len(answered))
		}
		c.alive()
	}}})
}

// responsesAndNAK returns the completions and calls nak with the NAK that arrived with them.
func (c *conn) responsesAndNAK(nak func(wire.Packet)) map[capsule.CID]bool {
	c.g.l.t.Helper()
	c.g.settle()
	naks := 0
	for _, p := range c.got {
		if p.Opcode == wire.RCAck && p.AETH.Syndrome.Kind() != wire.AETHAck {
			nak(p)
			naks++
		}
	}
	if naks != 1 {
		c.g.l.t.Errorf("%d NAKs, want 1", naks)
	}
	out := map[capsule.CID]bool{}
	for id := range c.responses() {
		out[id] = true
	}
	return out
}
