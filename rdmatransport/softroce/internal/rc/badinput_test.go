package rc

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// attack is a peer that sends arbitrary packets to the queue pair under test.
type attack struct {
	*pair
	target *side
	mem    *region // 4096 bytes that the peer may read and write
	recv   *region // the posted receive's buffer, 1024 bytes
}

func newAttack(t *testing.T) *attack {
	p := newPair(t, pairConfig{mtu: 256})
	a := &attack{pair: p, target: p.b}
	a.mem = p.b.keys.register(pattern(4096, 1), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteRead|rdmatransport.AccessRemoteWrite)
	a.recv = p.b.keys.register(make([]byte, 1024), rdmatransport.AccessLocalWrite)
	a.post(1)
	return a
}

func (a *attack) post(id uint64) {
	a.t.Helper()
	err := a.target.PostRecv([]rdmatransport.RecvWR{{ID: id, SGL: []rdmatransport.SGE{{Buf: a.recv.mem, LKey: rdmatransport.LKey(a.recv.key)}}}})
	if err != nil {
		a.t.Fatal(err)
	}
}

// write sends packets with consecutive PSNs, starting at the next expected one; a packet's own PSN is added.
func (a *attack) write(pkts ...wire.Packet) {
	base := a.target.resp.expected
	for i := range pkts {
		p := pkts[i]
		p.PSN = base.Add(uint32(p.PSN) + uint32(i))
		p.PKey = 0xffff
		a.target.Receive(a.now, &p)
	}
}

// answers returns the packets that the target sends now.
func (a *attack) answers() []wire.Packet {
	n := len(a.target.sent)
	a.drop = func(*side, *wire.Packet) bool { return true }
	a.flush(a.target)
	var out []wire.Packet
	for _, s := range a.target.sent[n:] {
		out = append(out, s.pkt)
	}
	return out
}

// wantNAK requires one NAK with that syndrome and, for fatal ones, the error state.
func (a *attack) wantNAK(syndrome wire.Syndrome) {
	a.t.Helper()
	got := a.answers()
	if len(got) != 1 || got[0].Opcode != wire.RCAck || got[0].AETH.Syndrome != syndrome {
		a.t.Fatalf("answered %+v, want a NAK %#x", got, syndrome)
	}
	fatal := syndrome > wire.SyndromeSequence
	if (a.target.State() == StateError) != fatal {
		a.t.Fatalf("state %d after NAK %#x", a.target.State(), syndrome)
	}
}

func (a *attack) wantSilence() {
	a.t.Helper()
	if got := a.answers(); len(got) != 0 {
		a.t.Fatalf("answered %+v, want nothing", got)
	}
}

func data(op wire.Opcode, n int) wire.Packet {
	return wire.Packet{Opcode: op, Payload: pattern(n, 5), AckReq: true}
}

func (a *attack) rdma(op wire.Opcode, off int64, n uint32, payload int) wire.Packet {
	p := data(op, payload)
	p.RETH = wire.RETH{VA: a.mem.iova + uint64(off), RKey: rdmatransport.RKey(a.mem.key), DMALen: n}
	return p
}

// TestBadRequests: malformed requests end the queue pair with the right NAK, and
// no memory is touched.
func TestBadRequests(t *testing.T) {
	key := func(p wire.Packet, k uint32) wire.Packet { p.RETH.RKey = rdmatransport.RKey(k); return p }
	tests := []struct {
		row  string
		pkts func(a *attack) []wire.Packet
		nak  wire.Syndrome
	}{
		{"19 wrong key", func(a *attack) []wire.Packet { return []wire.Packet{key(a.rdma(wire.RCWriteOnly, 0, 8, 8), 0xdead)} }, wire.SyndromeRemoteAccess},
		{"19 no write right", func(a *attack) []wire.Packet {
			r := a.target.keys.register(make([]byte, 4096), rdmatransport.AccessRemoteRead)
			p := key(a.rdma(wire.RCWriteOnly, 0, 8, 8), r.key)
			p.RETH.VA = r.iova
			return []wire.Packet{p}
		}, wire.SyndromeRemoteAccess},
		{"19 no read right", func(a *attack) []wire.Packet {
			r := a.target.keys.register(make([]byte, 4096), rdmatransport.AccessRemoteWrite)
			p := key(a.rdma(wire.RCReadRequest, 0, 8, 0), r.key)
			p.RETH.VA = r.iova
			return []wire.Packet{p}
		}, wire.SyndromeRemoteAccess},
		{"20 address wraps", func(a *attack) []wire.Packet {
			p := a.rdma(wire.RCReadRequest, 0, 4096, 0)
			p.RETH.VA = ^uint64(0) - 10
			return []wire.Packet{p}
		}, wire.SyndromeRemoteAccess},
		{"20 below the region", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCReadRequest, -1, 8, 0)} }, wire.SyndromeRemoteAccess},
		{"20 one byte past", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCReadRequest, 0, 4097, 0)} }, wire.SyndromeRemoteAccess},
		{"20 write one byte past", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCWriteOnly, 4089, 8, 8)} }, wire.SyndromeRemoteAccess},
		{"21 length above the limit", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCReadRequest, 0, 1<<31+1, 0)} }, wire.SyndromeInvalidRequest},
		{"21 less data than announced", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCWriteOnly, 0, 9, 8)} }, wire.SyndromeInvalidRequest},
		{"21 more data than announced", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCWriteOnly, 0, 7, 8)} }, wire.SyndromeInvalidRequest},
		{"21 first already too long", func(a *attack) []wire.Packet { return []wire.Packet{a.rdma(wire.RCWriteFirst, 0, 256, 256)} }, wire.SyndromeInvalidRequest},
		{"22 middle first", func(*attack) []wire.Packet { return []wire.Packet{data(wire.RCSendMiddle, 256)} }, wire.SyndromeInvalidRequest},
		{"22 last first", func(*attack) []wire.Packet { return []wire.Packet{data(wire.RCWriteLast, 8)} }, wire.SyndromeInvalidRequest},
		{"22 first twice", func(*attack) []wire.Packet {
			return []wire.Packet{data(wire.RCSendFirst, 256), data(wire.RCSendFirst, 256)}
		}, wire.SyndromeInvalidRequest},
		{"22 only inside a message", func(*attack) []wire.Packet {
			return []wire.Packet{data(wire.RCSendFirst, 256), data(wire.RCSendOnly, 8)}
		}, wire.SyndromeInvalidRequest},
		{"22 send inside a write", func(a *attack) []wire.Packet {
			return []wire.Packet{a.rdma(wire.RCWriteFirst, 0, 512, 256), data(wire.RCSendMiddle, 256)}
		}, wire.SyndromeInvalidRequest},
		{"22 read inside a send", func(a *attack) []wire.Packet {
			return []wire.Packet{data(wire.RCSendFirst, 256), a.rdma(wire.RCReadRequest, 0, 8, 0)}
		}, wire.SyndromeInvalidRequest},
		{"23 first too short", func(*attack) []wire.Packet { return []wire.Packet{data(wire.RCSendFirst, 255)} }, wire.SyndromeInvalidRequest},
		{"23 first too long", func(*attack) []wire.Packet { return []wire.Packet{data(wire.RCSendFirst, 260)} }, wire.SyndromeInvalidRequest},
		{"23 only too long", func(*attack) []wire.Packet { return []wire.Packet{data(wire.RCSendOnly, 257)} }, wire.SyndromeInvalidRequest},
		{"23 empty last", func(*attack) []wire.Packet {
			return []wire.Packet{data(wire.RCSendFirst, 256), data(wire.RCSendLast, 0)}
		}, wire.SyndromeInvalidRequest},
		{"26 longer than the receive", func(*attack) []wire.Packet {
			f, m := data(wire.RCSendFirst, 256), data(wire.RCSendMiddle, 256)
			return []wire.Packet{f, m, m, m, m}
		}, wire.SyndromeInvalidRequest},
		{"28 reserved opcode", func(*attack) []wire.Packet { return []wire.Packet{data(0x1f, 0)} }, wire.SyndromeInvalidRequest},
		{"29 invalidate a key that is none", func(*attack) []wire.Packet {
			p := data(wire.RCSendOnlyInv, 8)
			p.InvKey = 0xdead
			return []wire.Packet{p}
		}, wire.SyndromeRemoteAccess},
		{"misaligned atomic", func(a *attack) []wire.Packet {
			r := a.target.keys.register(make([]byte, 64), rdmatransport.AccessRemoteAtomic)
			return []wire.Packet{{Opcode: wire.RCFetchAdd, AtomicETH: wire.AtomicETH{VA: r.iova + 4, RKey: rdmatransport.RKey(r.key)}}}
		}, wire.SyndromeInvalidRequest},
		{"atomic without the right", func(a *attack) []wire.Packet {
			return []wire.Packet{{Opcode: wire.RCFetchAdd, AtomicETH: wire.AtomicETH{VA: a.mem.iova, RKey: rdmatransport.RKey(a.mem.key)}}}
		}, wire.SyndromeRemoteAccess},
		{"more reads than negotiated", func(a *attack) []wire.Packet {
			var ps []wire.Packet
			for range 9 {
				ps = append(ps, a.rdma(wire.RCReadRequest, 0, 8, 0))
			}
			return ps
		}, wire.SyndromeInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			a := newAttack(t)
			before := bytes.Clone(a.mem.mem)
			pkts := tt.pkts(a)
			a.write(pkts...)
			a.wantNAK(tt.nak)
			if len(pkts) == 1 && !bytes.Equal(before, a.mem.mem) {
				t.Error("memory was touched")
			}
			if a.target.counters.ErrorNAKsSent != 1 {
				t.Errorf("ErrorNAKsSent = %d", a.target.counters.ErrorNAKsSent)
			}
			if got := a.target.poll(); len(got) != 1 || got[0].Status == rdmatransport.StatusSuccess {
				t.Errorf("completions %+v, want the receive to fail once", got)
			}
			// Row 27: what follows is dropped.
			a.target.Receive(a.now, &wire.Packet{Opcode: wire.RCSendOnly, PSN: a.target.resp.expected, PKey: 0xffff})
			a.wantSilence()
			if a.target.counters.WrongState != 1 || a.target.cq.Len() != 0 {
				t.Error("a packet after the error was processed")
			}
		})
	}
}

// TestZeroLength: "zero length is accepted without a key check" (row 20).
func TestZeroLength(t *testing.T) {
	a := newAttack(t)
	w, r := data(wire.RCWriteOnly, 0), data(wire.RCReadRequest, 0)
	w.RETH.RKey, r.RETH.RKey = 0xdead, 0xdead
	a.write(w, r)
	got := a.answers()
	if len(got) != 1 || got[0].Opcode != wire.RCReadResponseOnly || got[0].PSN != 1 {
		t.Fatalf("answered %+v", got)
	}
}

// TestPlacesInTheSequence is row 24: ahead, far ahead, behind, wrapped.
func TestPlacesInTheSequence(t *testing.T) {
	for _, psn := range []wire.PSN{1000, 0xffffff} {
		a := newAttack(t)
		a.target.resp.expected = psn
		first := data(wire.RCSendOnly, 8)
		ahead := data(wire.RCSendOnly, 16)
		ahead.PSN = 1
		a.post(2)
		a.write(ahead)
		a.wantSilence()
		if a.target.Deadline() != a.now+firstReorderWindow {
			t.Fatal("no reorder window was opened")
		}
		a.target.Timeout(a.now + firstReorderWindow)
		got := a.answers()
		if len(got) != 1 || got[0].AETH.Syndrome != wire.SyndromeSequence || got[0].PSN != psn {
			t.Fatalf("answered %+v, want one sequence NAK at %#x", got, psn)
		}
		again := ahead
		again.PSN = 3
		a.write(again)
		a.target.Timeout(a.now + time.Second)
		a.wantSilence() // one NAK per gap
		a.write(first)
		a.want(a.target, "1 7 success", "2 7 success")
		for _, far := range []wire.PSN{maxAhead + 1, 1<<23 - 1} {
			p := first
			p.PSN = far
			a.write(p)
		}
		if a.target.counters.FarAhead != 2 {
			t.Errorf("FarAhead = %d", a.target.counters.FarAhead)
		}
		a.answers()
		dup := first
		dup.PSN = 0xfffffe // two before the expected PSN
		a.write(dup)
		got = a.answers()
		if len(got) != 1 || got[0].AETH.Syndrome != wire.SyndromeAck || got[0].PSN != psn.Add(1) {
			t.Fatalf("a duplicate was answered %+v", got)
		}
		if a.target.cq.Len() != 0 {
			t.Error("a duplicate was executed")
		}
	}
}

// TestDuplicateRead: a repeated READ is executed again, even from its middle; one that was never executed is dropped.
func TestDuplicateRead(t *testing.T) {
	a := newAttack(t)
	a.write(a.rdma(wire.RCReadRequest, 0, 600, 0))
	if got := a.answers(); len(got) != 3 {
		t.Fatalf("%d responses", len(got))
	}
	rest := a.rdma(wire.RCReadRequest, 256, 344, 0)
	rest.PSN = 0xfffffe // two before the expected PSN: the second response
	a.write(rest)
	got := a.answers()
	if len(got) != 2 || got[0].Opcode != wire.RCReadResponseFirst || !bytes.Equal(got[1].Payload, a.mem.mem[512:600]) {
		t.Fatalf("answered %+v", got)
	}
	outside := a.rdma(wire.RCReadRequest, 256, 345, 0)
	outside.PSN = 0xfffffe
	a.write(outside)
	a.wantSilence()
	if a.target.counters.StaleDuplicates != 1 {
		t.Error("not counted")
	}
}

// TestBadAnswers is row 25 for the requester.
func TestBadAnswers(t *testing.T) {
	answer := func(psn int, syndrome wire.Syndrome) wire.Packet {
		return wire.Packet{Opcode: wire.RCAck, PSN: wire.PSN(0).Add(uint32(psn)), PKey: 0xffff, AETH: wire.AETH{Syndrome: syndrome}}
	}
	p := newPair(t, pairConfig{})
	mem := p.a.keys.register(make([]byte, 3000), rdmatransport.AccessLocalWrite)
	sge := []rdmatransport.SGE{{Buf: mem.mem, LKey: rdmatransport.LKey(mem.key)}}
	p.drop = func(*side, *wire.Packet) bool { return true }
	if err := p.a.PostSend([]rdmatransport.SendWR{{ID: 1, Op: rdmatransport.OpSend, SGL: sge, Flags: rdmatransport.FlagSignaled}}); err != nil {
		t.Fatal(err)
	}
	p.flush(p.a)
	for _, bad := range []wire.Packet{
		answer(3, wire.SyndromeAck),                // never sent
		answer(100, wire.SyndromeRemoteAccess),     // NAK for nothing
		answer(1<<24-2, wire.SyndromeAck),          // old
		answer(1<<24-2, wire.SyndromeRemoteAccess), // an old NAK
		answer(1, 0x40),                            // reserved kind
		answer(1, 0x7f),                            // reserved NAK code
		{Opcode: wire.RCReadResponseOnly, PSN: 1, PKey: 0xffff, Payload: make([]byte, 8)}, // no READ is outstanding
	} {
		p.a.Receive(p.now, &bad)
		if p.a.State() != StateConnected || p.a.cq.Len() != 0 {
			t.Fatalf("%+v had an effect", bad)
		}
	}
	c := p.a.counters
	if c.GhostAcks != 2 || c.BadAcks != 2 || c.DuplicateResponses != 1 {
		t.Errorf("counters %+v", c)
	}
	good := answer(2, wire.SyndromeAck)
	p.a.Receive(p.now, &good)
	p.want(p.a, "1 0 success")
}

// TestBadBitmaps: acknowledgements with an impossible payload are counted and have no effect. False ones that are
// possible harm only the peer that sends them.
func TestBadBitmaps(t *testing.T) {
	const base = wire.PSN(0xfffffd)
	send := func(own bool) *pair { // six packets, none of which arrives
		p := newPair(t, pairConfig{own: own, psn: base})
		p.drop = func(*side, *wire.Packet) bool { return true }
		p.sends(6, 100)
		p.flush(p.a)
		return p
	}
	ack := func(psn uint32, syndrome wire.Syndrome, payload ...byte) *wire.Packet {
		return &wire.Packet{Opcode: wire.RCAck, PSN: base.Sub(1).Add(psn), PKey: 0xffff, AETH: wire.AETH{Syndrome: syndrome}, Payload: payload}
	}
	for _, c := range []struct {
		name string
		own  bool
		pkt  *wire.Packet
	}{
		{"of a foreign peer", false, ack(1, wire.SyndromeAck, 1, 0, 0, 0)},
		{"too long", true, ack(1, wire.SyndromeAck, make([]byte, maxHeldPerQP/8+4)...)},
		{"no whole words", true, ack(1, wire.SyndromeAck, 1, 0)},
		{"in a NAK", true, ack(1, wire.SyndromeSequence, 1, 0, 0, 0)},
		{"in a refusal", true, ack(1, wire.SyndromeRemoteAccess, 1, 0, 0, 0)},
		{"in an RNR NAK", true, ack(1, wire.SyndromeRNR(1), 1, 0, 0, 0)},
		{"the next PSN, never sent", true, ack(0, wire.SyndromeAck, 1<<5, 0, 0, 0)},
		{"far behind what was sent", true, ack(0, wire.SyndromeAck, 1, 0, 0, 0, 0, 0, 0, 0x80)},
	} {
		p := send(c.own)
		p.a.Receive(p.now, c.pkt)
		if n := p.a.counters.BadAcks; n != 1 || p.a.req.acked != base || p.a.req.board != nil || p.a.cq.Len() > 0 || p.a.State() != StateConnected {
			t.Errorf("%s: BadAcks = %d, acked %#x", c.name, n, p.a.req.acked)
		}
	}
	p := send(true)
	p.a.Receive(p.now, ack(0, wire.SyndromeAck, 1<<4, 0, 0, 0)) // "the last has arrived"
	p.a.Receive(p.now, ack(1, wire.SyndromeAck, 0xf, 0, 0, 0))  // "all but the second has"
	p.a.Receive(p.now, ack(3, wire.SyndromeAck))                // "the fourth has not"
	p.flush(p.a)
	if got, left := p.requests(), p.a.req.board.held; got != "[0 1 2 3 4 5 3]" || left.has(base.Add(3)) || !left.has(base.Add(4)) {
		t.Errorf("sent %s", got)
	}
	p.drop = nil
	p.run(20 * time.Second)
	p.want(p.a, "0 0 success", "1 0 success", "2 0 success", "3 0 no acknowledgement from peer", "4 0 flushed", "5 0 flushed")
}

// TestBadReadResponses is row 97: a response of the wrong length fails the READ.
func TestBadReadResponses(t *testing.T) {
	for _, n := range []int{0, 1023, 1028} {
		p := newPair(t, pairConfig{})
		mem := p.a.keys.register(make([]byte, 3000), rdmatransport.AccessLocalWrite)
		sge := []rdmatransport.SGE{{Buf: mem.mem, LKey: rdmatransport.LKey(mem.key)}}
		p.drop = func(*side, *wire.Packet) bool { return true }
		p.a.PostSend([]rdmatransport.SendWR{{ID: 1, Op: rdmatransport.OpRead, SGL: sge, Flags: rdmatransport.FlagSignaled}})
		p.flush(p.a)
		p.a.Receive(p.now, &wire.Packet{Opcode: wire.RCReadResponseFirst, PKey: 0xffff, Payload: make([]byte, n), AETH: wire.AETH{Syndrome: wire.SyndromeAck}})
		p.want(p.a, "1 2 bad response from peer")
	}
}

// TestKeyDiesBeforeResponse: if a key is invalidated while responses to a READ wait to be sent, that READ is refused,
// whether or not a request has followed it or some responses have been sent.
func TestKeyDiesBeforeResponse(t *testing.T) {
	for _, own := range []bool{true, false} {
		for _, later := range []bool{true, false} {
			for _, out := range []int{0, 3} { // responses
				t.Run(fmt.Sprintf("own=%v,later=%v,out=%d", own, later, out), func(t *testing.T) { keyDies(t, own, later, out) })
			}
		}
	}
}

func keyDies(t *testing.T, own, later bool, out int) {
	p := newPair(t, pairConfig{own: own})
	in := p.a.keys.register(make([]byte, 8192), rdmatransport.AccessLocalWrite)
	from := p.b.keys.register(make([]byte, 8192), rdmatransport.AccessRemoteRead|rdmatransport.AccessRemoteWrite)
	sgl := []rdmatransport.SGE{{Buf: in.mem, LKey: rdmatransport.LKey(in.key)}}
	p.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: sgl, RemoteAddr: from.iova, RKey: rdmatransport.RKey(from.key)})
	want := []string{"1 2 peer refused: remote access"}
	if later {
		p.post(rdmatransport.SendWR{ID: 2, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled, SGL: sgl[:0]})
		want = append(want, "2 1 flushed")
	}
	p.a.Transmit(p.now, p.a.out)
	for i := range p.a.out.Pkts {
		h := p.a.out.Pkts[i].Header
		var pkt wire.Packet
		wire.Parse(append(h[:p.a.out.Pkts[i].HLen:p.a.out.Pkts[i].HLen], 0, 0, 0, 0), &pkt)
		p.b.Receive(p.now, &pkt)
	}
	p.a.out.Reset()
	if out > 0 {
		few := NewOutbox(out)
		p.b.Transmit(p.now, few)
		for i := range few.Pkts {
			p.send(p.b, &few.Pkts[i])
		}
	}
	p.b.keys.Invalidate(rdmatransport.RKey(from.key))
	p.flush(p.b)
	p.run(time.Millisecond)
	p.want(p.a, want...)
	if n := p.a.counters.GhostAcks; n > 0 {
		t.Errorf("%d answers to nothing", n)
	}
}
