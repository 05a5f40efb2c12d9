package rc

import (
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// send posts n SENDs of size bytes from a to b, with receives for them.
func (p *pair) sends(n, size int) {
	p.t.Helper()
	out := p.a.keys.register(pattern(size, 1), 0)
	in := p.b.keys.register(make([]byte, size), rdmatransport.AccessLocalWrite)
	for i := range n {
		p.recv(uint64(i), in)
		p.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
	}
}

func (p *pair) recv(id uint64, in *region) {
	p.t.Helper()
	if err := p.b.PostRecv([]rdmatransport.RecvWR{{ID: id, SGL: []rdmatransport.SGE{{Buf: in.mem, LKey: rdmatransport.LKey(in.key)}}}}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) post(wr rdmatransport.SendWR) {
	p.t.Helper()
	if err := p.a.PostSend([]rdmatransport.SendWR{wr}); err != nil {
		p.t.Fatal(err)
	}
}

// lose drops the n-th request packets (counted from 0) that a sends.
func (p *pair) lose(nth ...int) {
	count := 0
	p.drop = func(to *side, pkt *wire.Packet) bool {
		if to != p.b {
			return false
		}
		defer func() { count++ }()
		for _, n := range nth {
			if n == count {
				return true
			}
		}
		return false
	}
}

// psns lists what a sent, relative to its first PSN.
func (p *pair) psns() string {
	var out []wire.PSN
	for _, s := range p.a.sent {
		if s.pkt.Opcode.Flags()&wire.FlagRequest != 0 {
			out = append(out, s.pkt.PSN)
		}
	}
	return fmt.Sprint(out)
}

// TestOneLossOwn: a softroce peer sends only what is missing.
func TestOneLossOwn(t *testing.T) {
	p := newPair(t, pairConfig{own: true})
	p.sends(6, 100)
	p.lose(2)
	p.run(time.Second)
	if got := p.psns(); got != "[0 1 2 3 4 5 2]" {
		t.Errorf("sent %s", got)
	}
	if n := len(p.a.poll()); n != 6 {
		t.Errorf("%d completions", n)
	}
	if p.now > 1*time.Second || p.a.counters.Timeouts != 0 {
		t.Error("recovery needed a timeout")
	}
}

// TestOneLossForeign: a foreign peer is assumed to have kept nothing.
func TestOneLossForeign(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.sends(6, 100)
	p.lose(2)
	p.run(time.Second)
	if got := p.psns(); got != "[0 1 2 3 4 5 2 3 4 5]" {
		t.Errorf("sent %s", got)
	}
}

// TestLostTail: nothing follows the lost packet, so it is probed for after a timeout.
func TestLostTail(t *testing.T) {
	p := newPair(t, pairConfig{own: true})
	p.sends(3, 100)
	p.lose(1, 2)
	p.run(time.Second)
	if got := p.psns(); got != "[0 1 2 1 2]" {
		t.Errorf("sent %s", got)
	}
	if p.a.counters.Timeouts != 1 {
		t.Errorf("%d timeouts", p.a.counters.Timeouts)
	}
}

// TestReordered: a foreign peer gets no NAK for reordered packets.
func TestReordered(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.jitter = time.Millisecond
	p.sends(60, 100)
	p.run(time.Second)
	if p.b.counters.OutOfOrder == 0 {
		t.Fatal("nothing was reordered: the test tests nothing")
	}
	if p.b.counters.SequenceNAKsSent != 0 || p.a.counters.Retransmits != 0 {
		t.Errorf("%d NAKs, %d retransmits", p.b.counters.SequenceNAKsSent, p.a.counters.Retransmits)
	}
}

// TestAckRepeat: the last acknowledgement is repeated to a foreign peer, but not to a softroce peer, whose timers are
// short.
func TestAckRepeat(t *testing.T) {
	for _, own := range []bool{false, true} {
		p := newPair(t, pairConfig{own: own})
		p.sends(1, 100)
		p.run(2 * time.Second)
		want := 1 + len(ackRepeats)
		if own {
			want = 1
		}
		if len(p.b.sent) != want {
			t.Errorf("own %v: %d acknowledgements, want %d", own, len(p.b.sent), want)
		}
	}
}

// TestSilentPeer: retries end with the negotiated timeout. The first request fails with the reason and the rest is
// flushed.
func TestSilentPeer(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.sends(3, 100)
	p.drop = func(*side, *wire.Packet) bool { return true }
	p.until(20*time.Second, func() bool { return p.a.State() == StateError })
	if p.now < 4*time.Second || p.now > 6*time.Second {
		t.Errorf("gave up after %v, want 8 times 500 ms and a little", p.now)
	}
	p.want(p.a, "0 0 no acknowledgement from peer", "1 0 flushed", "2 0 flushed")
}

// TestNotReady: a SEND without a receive waits (rows 30), for as many retries as allowed.
func TestNotReady(t *testing.T) {
	for _, retry := range []uint8{2, 7} {
		p := newPair(t, pairConfig{rnrRetry: retry})
		out := p.a.keys.register(pattern(3000, 1), 0)
		p.post(rdmatransport.SendWR{ID: 9, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
		p.run(20 * time.Millisecond)
		if p.b.counters.RNRNAKsSent == 0 {
			t.Fatal("no RNR NAK")
		}
		if retry == 2 {
			p.want(p.a, "9 0 peer not ready to receive")
			continue
		}
		p.recv(1, p.b.keys.register(make([]byte, 3000), rdmatransport.AccessLocalWrite))
		p.run(20 * time.Millisecond)
		p.want(p.a, "9 0 success")
		p.want(p.b, "1 7 success")
	}
}

// TestPutOff: a peer that sends one RNR NAK after the other, with the shortest delay there is, gets one packet for
// each NAK, at increasing intervals. When it is ready it gets the message.
func TestPutOff(t *testing.T) {
	for _, own := range []bool{false, true} {
		p := newPair(t, pairConfig{rnrRetry: 7, own: own})
		p.b.peer.RNRDelay = 1 // 10 µs
		out := p.a.keys.register(pattern(64<<10, 1), 0)
		p.post(rdmatransport.SendWR{ID: 9, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
			SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
		p.run(time.Second)
		if first, naks, all := 64, int(p.b.counters.RNRNAKsSent), len(p.a.sent); all > 2*first+2*naks || naks > 150 {
			t.Errorf("own kind %v: %d packets were sent for %d NAKs in a second", own, all, naks)
		}
		p.recv(1, p.b.keys.register(make([]byte, 64<<10), rdmatransport.AccessLocalWrite))
		p.run(20 * time.Millisecond)
		p.want(p.a, "9 0 success")
		p.want(p.b, "1 7 success")
	}
}

// TestReadBudget: the shard's receive budget limits the responses in flight.
func TestReadBudget(t *testing.T) {
	p := newPair(t, pairConfig{mtu: 4096, budget: 60000, own: true})
	data := p.b.keys.register(pattern(1<<20, 3), rdmatransport.AccessRemoteRead)
	into := p.a.keys.register(make([]byte, 1<<20), rdmatransport.AccessLocalWrite)
	p.post(rdmatransport.SendWR{ID: 1, Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, RemoteAddr: data.iova,
		RKey: rdmatransport.RKey(data.key), SGL: []rdmatransport.SGE{{Buf: into.mem, LKey: rdmatransport.LKey(into.key)}}})
	worst := 0
	p.until(time.Second, func() bool {
		flying := 0
		for _, f := range p.network {
			if f.to == p.a {
				flying += truesize(len(f.b))
			}
		}
		worst = max(worst, flying)
		return p.a.cq.Len() > 0
	})
	if worst > 61000 || worst < 20000 {
		t.Errorf("%d bytes of responses were in flight, budget 60000", worst)
	}
	if string(into.mem) != string(data.mem) {
		t.Error("wrong data")
	}
}

// TestLocalErrors: requests that cannot be executed fail in order.
func TestLocalErrors(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.sends(1, 10)
	bad := rdmatransport.SendWR{ID: 5, Op: rdmatransport.OpSend, SGL: []rdmatransport.SGE{{Buf: make([]byte, 8), LKey: 0xdead}}}
	p.post(bad)
	p.post(rdmatransport.SendWR{ID: 6, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled})
	p.run(time.Second)
	p.want(p.a, "0 0 success", "5 0 local protection error", "6 0 flushed")
	p.post(bad)
	p.want(p.a, "5 0 flushed")
}

// carrier passes packets to the other side without allocating, and loses some.
type carrier struct {
	buf          []byte
	pkt          wire.Packet
	count, every int // one in every is lost; 0: none
}

func (c *carrier) carry(now time.Duration, from, to *side) {
	from.Transmit(now, from.out)
	for i := range from.out.Pkts {
		o := &from.out.Pkts[i]
		b := append(c.buf[:0], o.Header[:o.HLen]...)
		for _, piece := range o.Pieces[:o.NPieces] {
			b = append(b, piece...)
		}
		b = append(b, make([]byte, 4+int(o.Pad))...)
		wire.Parse(b, &c.pkt)
		if c.count++; c.every == 0 || c.count%c.every != 0 {
			to.Receive(now, &c.pkt)
		}
	}
	from.out.Reset()
}

// TestAllocations: there are no allocations in the steady state.
func TestAllocations(t *testing.T) {
	p := newPair(t, pairConfig{mtu: 4096, own: true})
	out := p.a.keys.register(pattern(4096, 1), 0)
	in := p.b.keys.register(make([]byte, 4096), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteWrite)
	write := []rdmatransport.SendWR{
		{Op: rdmatransport.OpWrite, RemoteAddr: in.iova, RKey: rdmatransport.RKey(in.key), SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}},
		{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{{Buf: out.mem[:16], LKey: rdmatransport.LKey(out.key)}}}}
	recv := []rdmatransport.RecvWR{{SGL: []rdmatransport.SGE{{Buf: in.mem, LKey: rdmatransport.LKey(in.key)}}}}
	var cs [4]rdmatransport.Completion
	c := carrier{buf: make([]byte, 0, 8192)}
	n := testing.AllocsPerRun(1000, func() {
		p.now += time.Microsecond
		p.b.PostRecv(recv)
		p.a.PostSend(write)
		c.carry(p.now, p.a, p.b)
		p.now += askedDelay
		p.b.Timeout(p.now)
		c.carry(p.now, p.b, p.a)
		if p.a.cq.Poll(cs[:]) != 1 || p.b.cq.Poll(cs[:]) != 1 {
			t.Fatal("not completed")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

// TestWindowAsks: the last packet that the window allows asks for the acknowledgement that opens the window, even in
// the middle of a long message.
func TestWindowAsks(t *testing.T) {
	for _, window := range []int{5000, 16 << 10, 17000, 20000} {
		p := newPair(t, pairConfig{mtu: 1024})
		p.a.rtt.sends.window, p.a.rtt.sends.limit = window, window
		p.sends(2, 100_000)
		p.until(time.Second, func() bool { return p.a.cq.Len() == 2 })
		if p.a.counters.Timeouts != 0 {
			t.Errorf("window %d: %d timeouts", window, p.a.counters.Timeouts)
		}
	}
}

// TestLossAllocations: in the long run, loss does not allocate either.
func TestLossAllocations(t *testing.T) {
	p := newPair(t, pairConfig{mtu: 1024, own: true})
	data := p.b.keys.register(make([]byte, 8192), rdmatransport.AccessRemoteRead|rdmatransport.AccessRemoteWrite)
	local := p.a.keys.register(make([]byte, 8192), rdmatransport.AccessLocalWrite)
	wrs := []rdmatransport.SendWR{{Op: rdmatransport.OpWrite}, {Op: rdmatransport.OpRead}, {Op: rdmatransport.OpWrite}}
	for i := range wrs {
		wrs[i].Flags, wrs[i].RemoteAddr, wrs[i].RKey = rdmatransport.FlagSignaled, data.iova, rdmatransport.RKey(data.key)
		wrs[i].SGL = []rdmatransport.SGE{{Buf: local.mem, LKey: rdmatransport.LKey(local.key)}}
	}
	var cs [4]rdmatransport.Completion
	c := carrier{buf: make([]byte, 0, 8192), every: 7}
	n := testing.AllocsPerRun(200, func() {
		p.a.PostSend(wrs)
		for done := 0; done < len(wrs); done += p.a.cq.Poll(cs[:]) {
			p.now += 10 * time.Microsecond
			c.carry(p.now, p.a, p.b)
			c.carry(p.now, p.b, p.a)
			p.a.Timeout(p.now)
			p.b.Timeout(p.now)
		}
	})
	if n != 0 || p.a.counters.Retransmits < 200 || p.a.State() != StateConnected {
		t.Errorf("%v allocations, %d packets sent again", n, p.a.counters.Retransmits)
	}
}

// TestGapClosesInTime: no NAK is sent if the missing packets arrive after the timer expired but before anything was
// sent. The delay determines how long to wait at the next gap.
func TestGapClosesInTime(t *testing.T) {
	p := newPair(t, pairConfig{})
	in := p.b.keys.register(make([]byte, 16), rdmatransport.AccessLocalWrite)
	for i := range 3 {
		p.recv(uint64(i), in)
		p.post(rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled})
	}
	var late wire.Packet
	p.drop = func(to *side, pkt *wire.Packet) bool {
		if to == p.b && pkt.PSN == 1 && late.Opcode == 0 && pkt.Opcode == wire.RCSendOnly {
			late = *pkt
			late.Payload = nil
			return true
		}
		return false
	}
	p.run(time.Millisecond)
	p.now = p.b.Deadline()
	p.b.Timeout(p.now)
	p.b.Receive(p.now, &late)
	p.flush(p.b)
	p.run(time.Millisecond)
	if n := p.b.counters.SequenceNAKsSent + p.a.counters.SequenceNAKsGot + p.a.counters.Retransmits; n > 0 {
		t.Errorf("the peer heard of a gap that had closed: %+v", p.b.counters)
	}
	p.want(p.a, "0 0 success", "1 0 success", "2 0 success")
	if w := p.b.resp.window; w.length <= firstReorderWindow {
		t.Errorf("the next gap gets %v, after one that took %v to close", w.length, firstReorderWindow)
	}
}
