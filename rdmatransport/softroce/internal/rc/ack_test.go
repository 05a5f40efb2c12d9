package rc

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// acks counts the acknowledgements that b sent.
func (p *pair) acks() (n int) {
	for _, s := range p.b.sent {
		if s.pkt.Opcode == wire.RCAck {
			n++
		}
	}
	return n
}

// TestRelaxedAck: the completion of a relaxed request needs no requested acknowledgement and arrives after
// unaskedDelay; others arrive soon, and foreign peers are always asked for an ACK.
func TestRelaxedAck(t *testing.T) {
	for _, c := range []struct {
		name  string
		own   bool
		flags rdmatransport.SendFlags
		asked bool
	}{
		{"signaled", true, rdmatransport.FlagSignaled, true},
		{"relaxed", true, rdmatransport.FlagSignaled | rdmatransport.FlagRelaxed, false},
		{"unsignaled", true, 0, false},
		{"foreign", false, rdmatransport.FlagSignaled | rdmatransport.FlagRelaxed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, pairConfig{own: c.own})
			in := p.b.keys.register(make([]byte, 16), rdmatransport.AccessLocalWrite)
			p.recv(0, in)
			p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: c.flags})
			p.run(unaskedDelay / 2)
			if asked := p.a.sent[0].pkt.AckReq; asked != c.asked {
				t.Errorf("asks for an acknowledgement: %v", asked)
			}
			if early := p.acks() > 0; early != c.asked {
				t.Errorf("acknowledged soon: %v", early)
			}
			p.run(2 * unaskedDelay)
			if p.acks() != 1 {
				t.Errorf("%d acknowledgements after the delay", p.acks())
			}
			if want := c.flags & rdmatransport.FlagSignaled; len(p.a.poll()) != int(want) {
				t.Error("completion missing, or one too many")
			}
			p.run(time.Second)
			if n := p.a.counters.Timeouts; n != 0 {
				t.Errorf("%d timeouts", n)
			}
		})
	}
}

// TestAckRidesAlong: a delayed acknowledgement is sent after the next request of the other direction, in the same
// datagram.
func TestAckRidesAlong(t *testing.T) {
	p := newPair(t, pairConfig{own: true})
	p.recv(0, p.b.keys.register(make([]byte, 16), rdmatransport.AccessLocalWrite))
	p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend})
	p.run(unaskedDelay / 4)
	if err := p.a.PostRecv([]rdmatransport.RecvWR{{}}); err != nil {
		t.Fatal(err)
	}
	if err := p.b.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend}}); err != nil {
		t.Fatal(err)
	}
	p.run(unaskedDelay / 4)
	if len(p.b.sent) != 2 || p.b.sent[0].pkt.Opcode != wire.RCSendOnly || p.b.sent[1].pkt.Opcode != wire.RCAck {
		t.Fatalf("b sent %d packets, want a SEND and an ACK", len(p.b.sent))
	}
}

// TestAskedAckWaits: a softroce peer sends a requested acknowledgement after askedDelay, so that it can share a
// datagram with the application's answer; foreign peers do not wait.
func TestAskedAckWaits(t *testing.T) {
	for _, own := range []bool{true, false} {
		p := newPair(t, pairConfig{own: own})
		p.recv(0, p.b.keys.register(make([]byte, 16), rdmatransport.AccessLocalWrite))
		p.post(rdmatransport.SendWR{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled})
		p.run(p.delay + askedDelay/2)
		if early := p.acks() > 0; early == own {
			t.Errorf("own kind %v: acknowledged at once: %v", own, early)
		}
		p.run(askedDelay)
		if p.acks() != 1 {
			t.Errorf("own kind %v: %d acknowledgements after the delay", own, p.acks())
		}
	}
}

// TestPause: a machine that has paused for longer than the peer's retries asks again before it gives the peer up.
func TestPause(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.sends(1, 100)
	p.lose(0)
	p.flush(p.a)
	p.now += 10 * time.Second
	p.run(time.Second)
	if cs := p.a.poll(); len(cs) != 1 || p.a.state != StateConnected {
		t.Errorf("%d completions, state %v", len(cs), p.a.state)
	}
}

// TestLongerRoundTrip: if round trips become longer than the timeout, the timeout follows.
func TestLongerRoundTrip(t *testing.T) {
	p := newPair(t, pairConfig{own: true, sends: 64, recvs: 64})
	exchange := func(n int) {
		t.Helper()
		for range n {
			p.sends(1, 100)
			p.until(10*time.Second, func() bool { return len(p.a.poll()) > 0 })
			p.b.poll()
		}
	}
	p.delay = 10 * time.Microsecond
	exchange(20)
	p.delay = 30 * time.Millisecond
	exchange(5)
	before := p.a.counters.Timeouts
	exchange(20)
	if n := p.a.counters.Timeouts - before; n > 0 {
		t.Errorf("%d timeouts in 20 round trips of 60 ms, after 5 to learn that", n)
	}
}
