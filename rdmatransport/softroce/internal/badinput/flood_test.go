package badinput

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestMoreCommandsThanEntries is row 63: a host that exceeds its queue's size gets RNR NAKs or loses the queue, with
// and without flow control, whether or not it acknowledges the responses. The memory of the queue does not change.
func TestMoreCommandsThanEntries(t *testing.T) {
	overrun := func(row string, attrs uint8, mute bool) attack {
		return attack{row: row, counter: rnrNAKs, run: func(l *lab) {
			_, io := l.gremlin.ioQueue(attrs)
			io.mute = mute
			flush := capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.KeyedSGL(0, 0, 0, false)}
			var ps []wire.Packet
			for range 300 {
				ps = append(ps, io.capsule(flush, nil)...)
			}
			l.gremlin.send(ps...)
			l.host.work()
			answered := map[capsule.CID]bool{}
			for id := range io.responses() {
				answered[id] = true
			}
			if len(answered) > 32 {
				l.t.Errorf("%d commands were taken at a time, of a queue of 32", len(answered))
			}
			for range 20 { // again from the PSN of the NAK, like a requester
				if io.gone || len(answered) == len(ps) {
					break
				}
				l.gremlin.send(ps[len(answered):]...)
				for id := range io.responses() {
					answered[id] = true
				}
			}
			if !mute && len(answered) != len(ps) {
				l.t.Errorf("%d of %d commands were answered in the end", len(answered), len(ps))
			}
		}}
	}
	test(t, []attack{
		overrun("63 flow control on", 0, false),
		overrun("63 flow control off", capsule.ConnectNoFlowControl, false),
		overrun("63 flow control on, answers not acknowledged", 0, true),
		overrun("63 flow control off, answers not acknowledged", capsule.ConnectNoFlowControl, true),
	})
}

// flood sends n requests, either all at once or each after the target has handled the one before, and returns the
// connections that were granted. The others must have been rejected for lack of resources.
func (g *gremlin) flood(n int, atOnce bool) (granted []*conn) {
	t := g.l.t
	t.Helper()
	byID := map[wire.CommID]*conn{}
	for range n {
		c, r := g.open()
		byID[c.local] = c
		if g.say(r); !atOnce {
			synctest.Wait()
		}
	}
	refused := map[wire.CommID]bool{}
	for range 20 {
		for _, m := range g.messages() {
			switch m.Attribute {
			case wire.AttrREP:
				var rep wire.REP
				rep.Parse(&m.MAD)
				if c := byID[rep.RemoteID]; c != nil && c.remote == 0 { // not of an earlier flood
					c.remote, c.peer, c.psn = rep.LocalID, rep.QPN, rep.StartingPSN
					granted = append(granted, c)
				}
			case wire.AttrREJ:
				var rej wire.REJ
				rej.Parse(&m.MAD)
				if c := byID[rej.RemoteID]; c == nil || c.remote != 0 {
					continue // already granted, or of an earlier flood
				}
				d, err := capsule.DecodeRejectData(rej.PrivateData[:])
				full := rej.Reason == rdmatransport.RejectNoResources ||
					rej.Reason == rdmatransport.RejectConsumer && err == nil && d.STS == capsule.RejectNoResources
				if refused[rej.RemoteID] = true; !full {
					t.Errorf("REJ of %#x: reason %v", rej.RemoteID, rej.Reason)
				}
			}
		}
		if len(granted)+len(refused) >= n {
			break
		}
	}
	return granted
}

// forget reads what has arrived and drops the connections, which the peer has ended.
func (g *gremlin) forget() {
	g.l.t.Helper()
	for n := 1; n > 0; {
		var err error
		n, err = g.port.Recv(g.batch)
		g.l.must(err)
	}
	for _, c := range g.conns {
		c.remote = 0
	}
	g.mads = nil
}

// TestFloodOfConnections is row 110: requests without an RTU, from one address and from many, and connections that
// never send a Connect command. The number of places is limited, and newer connections replace older ones. Connected
// hosts continue as before, and a returning host and a new one are connected at once, during the flood.
func TestFloodOfConnections(t *testing.T) {
	const places = 512 // of the target
	each := func(l *lab, sources, n int, act func(*conn)) {
		gremlins := []*gremlin{l.gremlin}
		for i := 1; i < sources; i++ {
			gremlins = append(gremlins, newGremlin(l, netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})))
		}
		most := min(places, sources*places/2)
		for round := range 3 {
			for _, g := range gremlins {
				// If older half-open connections are replaced by those of the same batch, the number that is left
				// depends on how soon the target's goroutine runs.
				for _, c := range g.flood(n, round != 1) {
					act(c)
				}
			}
			least := most / 2
			if round == 2 {
				least = 1
			}
			if taken := sum(l.device, queuePairs); taken < uint64(least) || taken > uint64(most+8) {
				l.t.Errorf("round %d: %d queue pairs, want %d to %d for those who are silent", round, taken, least, most)
			}
			began := time.Now()
			l.host.again()
			newcomer := newGremlin(l, netip.AddrFrom4([4]byte{203, 0, 113, byte(round)}))
			newcomer.login().alive()
			if d := time.Since(began); d > 2*time.Second {
				l.t.Errorf("round %d: two hosts were connected in %v", round, d)
			}
			newcomer.leave()
			l.must(newcomer.group.Close())
		}
		l.host.work()
		if n := l.target.AdmissionCounts(); n.GaveWay+n.Refused == 0 {
			l.t.Error("nothing gave way, nor was refused")
		}
		time.Sleep(30 * time.Second)
		l.host.again() // the flood was forgotten, although its connections were not disconnected
		for _, g := range gremlins {
			g.forget()
		}
		for _, g := range gremlins[1:] {
			l.must(g.group.Close())
		}
	}
	nothing := func(*conn) {}
	established := func(c *conn) { c.g.say(c.rtu()) }
	var attacks []attack
	for _, sources := range []int{1, 16} {
		row := fmt.Sprintf("110 %d sources, ", sources)
		if *long || sources == 1 {
			attacks = append(attacks, attack{row: row + "never RTU", counter: messagesIn, run: func(l *lab) { each(l, sources, 640/sources, nothing) }})
		}
		if *long || sources > 1 {
			attacks = append(attacks, attack{row: row + "never Connect", counter: messagesIn, run: func(l *lab) { each(l, sources, 640/sources, established) }})
		}
	}
	test(t, attacks)
}

// TestFloodOfPackets is row 114: whatever a flood consists of, the other connections make progress at the rate of the
// network, without any timeout.
func TestFloodOfPackets(t *testing.T) {
	const waves, packets = 40, 500
	flood := func(row string, n counter, make func(c *conn) []byte) attack {
		return attack{row: row, counter: n, run: func(l *lab) {
			c := l.gremlin.login()
			b := make(c)
			wave := [packets][]byte{}
			for i := range wave {
				wave[i] = b
			}
			for range waves {
				l.gremlin.throw(wave[:]...)
				began := time.Now()
				l.host.work()
				if d := time.Since(began); d > 50*time.Millisecond { // virtual time
					l.t.Fatalf("the honest host's 128 KiB took %v", d)
				}
			}
			l.gremlin.settle()
			c.got = nil
			c.alive()
		}}
	}
	test(t, []attack{
		flood("114 wrong ICRC", fault(wire.BadICRC), func(c *conn) []byte {
			p := c.property()
			b := c.g.assemble(&p)
			c.psn = p.PSN // was not accepted
			b[len(b)-1] ^= 1
			return b
		}),
		flood("114 valid, to no queue pair", unknownQPN, func(c *conn) []byte {
			p := c.property()
			c.psn = p.PSN
			p.DestQPN = 0x123456
			return c.g.assemble(&p)
		}),
		flood("114 valid, duplicates of one command", duplicates, func(c *conn) []byte {
			p := c.property()
			c.g.send(p)
			c.g.settle()
			return c.g.assemble(&p)
		}),
		flood("114 valid, far ahead", farAhead, func(c *conn) []byte {
			p := c.property()
			c.psn = p.PSN
			p.PSN = p.PSN.Add(1 << 20)
			return c.g.assemble(&p)
		}),
	})
}
