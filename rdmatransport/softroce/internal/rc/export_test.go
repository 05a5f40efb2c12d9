package rc

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// move replaces s's queue pair by another one that has only the exported state, encoded as JSON.
func (p *pair) move(s *side) {
	p.t.Helper()
	old := s.QP
	x, err := Export(p.now, old)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := json.Marshal(&x)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := old.PostSend(make([]rdmatransport.SendWR, 1)); err == nil {
		p.t.Error("an exported queue pair takes a send")
	}
	if err := old.PostRecv(make([]rdmatransport.RecvWR, 1)); err == nil {
		p.t.Error("an exported queue pair takes a receive")
	}
	s.QP = New(old.cfg)
	old.Close()
	if s.cq.Len() != 0 {
		p.t.Error("an exported queue pair has completed something")
	}
	var y Exported
	if err := json.Unmarshal(b, &y); err != nil {
		p.t.Fatal(err)
	}
	if err := y.Restore(p.now, s.QP); err != nil {
		p.t.Fatal(err)
	}
}

// drain runs until both are idle.
func (p *pair) drain() {
	p.t.Helper()
	p.until(time.Second, func() bool { return p.a.Idle() && p.b.Idle() })
}

// TestMoveInTraffic: both sides move repeatedly between messages of both directions, READs and WRITEs, with PSNs that
// wrap, and nothing is sent twice.
func TestMoveInTraffic(t *testing.T) {
	for _, own := range []bool{true, false} {
		p := newPair(t, pairConfig{own: own, psn: 1<<24 - 300})
		at, bt := p.a.keys.register(make([]byte, 64<<10), 15), p.b.keys.register(make([]byte, 64<<10), 15)
		for round := range 50 {
			copy(at.mem[8192:], pattern(20000, round))
			for _, s := range []*side{p.a, p.b} {
				mine, theirs := at, bt
				if s == p.b {
					mine, theirs = bt, at
				}
				sge := func(from, n int) []rdmatransport.SGE {
					return []rdmatransport.SGE{{Buf: mine.mem[from:][:n], LKey: rdmatransport.LKey(mine.key)}}
				}
				if err := p.other(s).PostRecv([]rdmatransport.RecvWR{{ID: 9, SGL: []rdmatransport.SGE{{Buf: theirs.mem[:4096], LKey: rdmatransport.LKey(theirs.key)}}}}); err != nil {
					t.Fatal(err)
				}
				wrs := []rdmatransport.SendWR{{ID: 3, Op: rdmatransport.OpSend, SGL: sge(8192, 3000), Flags: rdmatransport.FlagSignaled}}
				if s == p.b {
					wrs = append(wrs, rdmatransport.SendWR{ID: 4, Op: rdmatransport.OpRead, SGL: sge(8192, 20000), RemoteAddr: at.iova + 8192, RKey: rdmatransport.RKey(at.key), Flags: rdmatransport.FlagSignaled},
						rdmatransport.SendWR{ID: 5, Op: rdmatransport.OpWrite, SGL: sge(8192, 20000), RemoteAddr: at.iova + 32768, RKey: rdmatransport.RKey(at.key), Flags: rdmatransport.FlagSignaled | rdmatransport.FlagFence})
				}
				if err := s.PostSend(wrs); err != nil {
					t.Fatal(err)
				}
			}
			p.until(time.Second, func() bool { return p.a.cq.Len() == 2 && p.b.cq.Len() == 4 })
			p.a.poll()
			p.b.poll()
			if string(at.mem[32768:][:20000]) != string(pattern(20000, round)) {
				t.Fatalf("round %d: other data came back", round)
			}
			p.drain()
			p.move([]*side{p.a, p.b}[round%2])
		}
		for _, s := range []*side{p.a, p.b} {
			if c := s.counters; c.Retransmits+c.Timeouts+c.Duplicates+c.GhostAcks+c.OutOfOrder > 0 {
				t.Errorf("own kind %v: %+v", own, c)
			}
		}
	}
}

// TestMovedAnswersDuplicate: an acknowledged SEND that is repeated after the move gets the same acknowledgement (IBTA
// 9.7.5.1.3), and is not executed again.
func TestMovedAnswersDuplicate(t *testing.T) {
	p := newPair(t, pairConfig{})
	in := p.b.keys.register(make([]byte, 4096), rdmatransport.AccessLocalWrite)
	for range 3 {
		p.recv(0, in)
		p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled})
	}
	p.run(time.Millisecond)
	p.b.poll()
	first := p.b.sent[len(p.b.sent)-1].pkt
	p.move(p.b)
	p.recv(0, in)
	again := p.a.sent[len(p.a.sent)-1].pkt
	p.b.Receive(p.now, &again)
	p.flush(p.b)
	got := p.b.sent[len(p.b.sent)-1].pkt
	if got.Opcode != wire.RCAck || got.PSN != first.PSN || got.AETH != first.AETH {
		t.Errorf("acknowledged as %d %+v before and as %d %+v after the move", first.PSN, first.AETH, got.PSN, got.AETH)
	}
	if p.b.cq.Len() != 0 || p.b.counters.Duplicates != 1 {
		t.Errorf("%d completions, %d duplicates", p.b.cq.Len(), p.b.counters.Duplicates)
	}
}

// TestMovedRepeatsAck: the last acknowledgement to a foreign peer is repeated as if there had been no move.
func TestMovedRepeatsAck(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.recv(0, p.b.keys.register(make([]byte, 16), rdmatransport.AccessLocalWrite))
	p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled})
	p.run(10 * time.Millisecond)
	p.b.poll()
	start := p.b.sent[0].at
	p.move(p.b)
	p.run(50 * time.Millisecond)
	p.move(p.b)
	p.run(time.Second)
	at := start
	for i, s := range p.b.sent {
		if s.at != at || s.pkt.Opcode != wire.RCAck || i > len(ackRepeats) {
			t.Errorf("packet %d at %v, want an ACK at %v", i, s.at, at)
		}
		if i < len(ackRepeats) {
			at += ackRepeats[i]
		}
	}
	if n := p.acks(); n != 1+len(ackRepeats) {
		t.Errorf("%d acknowledgements", n)
	}
}

// TestNotIdle: a queue pair with outstanding work is not exported, and continues.
func TestNotIdle(t *testing.T) {
	post := func(p *pair, s *side, op rdmatransport.Opcode, n int) {
		r := s.keys.register(make([]byte, n), 15)
		far := p.other(s).keys.register(make([]byte, n), 15)
		if err := s.PostSend([]rdmatransport.SendWR{{Op: op, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{{Buf: r.mem, LKey: rdmatransport.LKey(r.key)}},
			RemoteAddr: far.iova, RKey: rdmatransport.RKey(far.key)}}); err != nil {
			p.t.Fatal(err)
		}
	}
	ready := func(p *pair) { p.recv(0, p.b.keys.register(make([]byte, 8192), 15)) }
	// handed delivers the first n packets that a has ready to b.
	handed := func(p *pair, skip, n int) {
		p.drop = func(*side, *wire.Packet) bool { return true }
		p.flush(p.a)
		for i := range n {
			p.b.Receive(p.now, &p.a.sent[skip+i].pkt)
		}
		p.drop = nil
	}
	for _, c := range []struct {
		name string
		do   func(p *pair)
	}{
		{"a send posted", func(p *pair) { post(p, p.b, rdmatransport.OpFetchAdd, 8) }},
		{"a WRITE not acknowledged", func(p *pair) { post(p, p.b, rdmatransport.OpWrite, 10); p.flush(p.b) }},
		{"a READ under way", func(p *pair) { post(p, p.b, rdmatransport.OpRead, 10); p.flush(p.b) }},
		{"an acknowledgement owed", func(p *pair) { ready(p); post(p, p.a, rdmatransport.OpSend, 10); handed(p, 0, 1); p.b.poll() }},
		{"a completion not polled", func(p *pair) {
			ready(p)
			post(p, p.a, rdmatransport.OpSend, 10)
			handed(p, 0, 1)
			p.flush(p.b)
		}},
		{"half a message", func(p *pair) { ready(p); post(p, p.a, rdmatransport.OpSend, 3000); handed(p, 0, 1) }},
		{"a packet out of order", func(p *pair) { ready(p); post(p, p.a, rdmatransport.OpSend, 3000); handed(p, 1, 1) }},
		{"a response owed", func(p *pair) { post(p, p.a, rdmatransport.OpRead, 10); handed(p, 0, 1) }},
		{"a NAK owed", func(p *pair) { post(p, p.a, rdmatransport.OpSend, 10); handed(p, 0, 1) }},
		{"a notification owed", func(p *pair) { p.b.Marked(p.now, &wire.Packet{Opcode: wire.RCSendOnly}) }},
	} {
		for _, own := range []bool{true, false} {
			p := newPair(t, pairConfig{own: own, rnrRetry: 7})
			c.do(p)
			if _, err := Export(p.now, p.b.QP); err == nil || p.b.Idle() {
				t.Errorf("%s, own kind %v: exported", c.name, own)
			}
			ready(p)
			p.until(5*time.Second, func() bool { p.a.poll(); p.b.poll(); return p.a.Idle() && p.b.Idle() })
			p.move(p.b)
		}
	}
	for name, end := range map[string]func(p *pair){
		"never connected": func(p *pair) { p.b = newSide(pairConfig{sends: 1, recvs: 1}, 1) },
		"ended":           func(p *pair) { p.b.Fail(rdmatransport.ErrDisconnected) },
		"moved":           func(p *pair) { Export(p.now, p.b.QP) }, //nolint:errcheck // so that the next fails
	} {
		p := newPair(t, pairConfig{})
		end(p)
		if _, err := Export(p.now, p.b.QP); err == nil || p.b.Idle() {
			t.Errorf("%s: exported", name)
		}
	}
}

// TestRestoreRefuses: a state that no queue pair can have exported is refused with the reason.
func TestRestoreRefuses(t *testing.T) {
	good := func() Exported {
		p := newPair(t, pairConfig{})
		x, err := Export(0, p.b.QP)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for want, change := range map[string]func(x *Exported){
		"more than 24 bits": func(x *Exported) { x.NextPSN = 1 << 24 },
		"path MTU":          func(x *Exported) { x.Peer.PathMTU = 1500 },
		"reads out":         func(x *Exported) { x.Peer.ReadsOut = -1 },
		"reads in":          func(x *Exported) { x.Peer.ReadsIn = 1 << 30 },
		"RNR retries":       func(x *Exported) { x.Peer.RNRRetryCount = 8 },
		"RNR delay":         func(x *Exported) { x.Peer.RNRDelay = 32 },
		"a time":            func(x *Exported) { x.RoundTrip = -1 },
		"repeats":           func(x *Exported) { x.Repeats = 100 },
		"unasked":           func(x *Exported) { x.Unasked = -1 },
	} {
		x := good()
		change(&x)
		err := x.Restore(0, newSide(pairConfig{sends: 1, recvs: 1}, 1).QP)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	x := good()
	if err := x.Restore(0, newPair(t, pairConfig{}).a.QP); err == nil {
		t.Error("restored where a connection is")
	}
}

// FuzzRestore: every state is refused, or produces a queue pair that handles packets and sends.
func FuzzRestore(f *testing.F) {
	p := newPair(f, pairConfig{own: true})
	x, err := Export(0, p.b.QP)
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(&x)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint32(77))
	f.Add([]byte(`{"peer":{"path-mtu":256,"own":false},"repeat-in":1,"repeats":3,"unasked":1073741824}`), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, psn uint32) {
		var x Exported
		if json.Unmarshal(b, &x) != nil {
			return
		}
		s := newSide(pairConfig{sends: 4, recvs: 4}, 0x22)
		if x.Restore(0, s.QP) != nil {
			return
		}
		s.QP.PostRecv([]rdmatransport.RecvWR{{}})                                                     //nolint:errcheck // it has room
		s.QP.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend}, {Op: rdmatransport.OpRead}}) //nolint:errcheck // it has room
		for i := range time.Duration(20) {
			now := i * 50 * time.Millisecond
			s.Receive(now, &wire.Packet{Opcode: wire.RCSendOnly, PKey: x.Peer.PKey, PSN: wire.PSN(psn).Add(uint32(i)), AckReq: true})
			s.Receive(now, &wire.Packet{Opcode: wire.RCAck, PKey: x.Peer.PKey, PSN: wire.PSN(psn).Add(uint32(i))})
			s.Transmit(now, s.out)
			s.out.Reset()
			s.Timeout(now)
		}
		s.Close()
	})
}
