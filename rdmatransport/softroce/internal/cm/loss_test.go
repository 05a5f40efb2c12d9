package cm

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestLossyNetwork runs random exchanges over a network that loses, duplicates and reorders. It checks that every
// connection ends once, in order, on both sides, and that nothing is left.
func TestLossyNetwork(t *testing.T) {
	seeds := uint64(3000)
	if testing.Short() {
		seeds = 300
	}
	established := 0
	for seed := range seeds {
		established += lossyRun(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if established < int(seeds) {
		t.Errorf("only %d connections were made in %d runs", established, seeds)
	}
}

// lossyRun returns the number of connections that were established before they were ended.
func lossyRun(t *testing.T, seed uint64) (made int) {
	p := newPair(t, seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	p.disturb(rng)
	qpn := passiveQPN
	params := func() AcceptParams {
		params := acceptParams()
		qpn++
		params.QPN = qpn
		return params
	}
	p.answer = func(ev Event) {
		switch rng.IntN(6) {
		case 0:
			_ = p.b.Reject(p.now, ev.ID, rdmatransport.RejectConsumer, nil)
		case 1: // answered later, below
		default:
			_ = p.b.Accept(p.now, ev.ID, params())
		}
	}
	p.reply = func(ev Event) {
		if rng.IntN(4) > 0 { // otherwise answered later
			_ = p.a.Confirm(p.now, ev.ID)
		}
	}
	ids := p.connectSome(rng)
	for _, ev := range p.b.events {
		if ev.Kind == EventRequest {
			_ = p.b.Accept(p.now, ev.ID, params())
		}
	}
	p.runUpTo(rng, 3*time.Second)
	for _, id := range ids {
		if p.a.Confirm(p.now, id) == nil || rng.IntN(2) == 0 {
			p.runUpTo(rng, time.Second)
		}
	}
	made = countEstablished(p.b)
	p.endAll(rng)
	return made
}

// disturb makes the network lose, duplicate and reorder.
func (p *pair) disturb(rng *rand.Rand) {
	loss, double := rng.Float64()*0.3, rng.Float64()*0.3
	p.jitter = time.Duration(rng.Int64N(int64(500*time.Millisecond))) + 1
	p.filter = func(*end, wire.AttributeID) int {
		switch x := rng.Float64(); {
		case x < loss:
			return 0
		case x < loss+double:
			return 2
		}
		return 1
	}
}

func (p *pair) runUpTo(rng *rand.Rand, limit time.Duration) {
	p.run(time.Duration(rng.Int64N(int64(limit))))
}

func (p *pair) connectSome(rng *rand.Rand) (ids []wire.CommID) {
	for i := range 1 + rng.IntN(4) {
		params := connectParams()
		params.QPN += rdmatransport.QPN(i)
		id, err := p.a.Connect(p.now, params)
		if err != nil {
			p.t.Fatal(err)
		}
		ids = append(ids, id)
		p.runUpTo(rng, 3*time.Second)
	}
	return ids
}

// endAll disconnects some connections from either side, or both, then the rest.
func (p *pair) endAll(rng *rand.Rand) {
	both := []*end{p.a, p.b}
	for _, x := range both {
		for _, id := range keys(x.conns) {
			if rng.IntN(2) == 0 {
				x.Disconnect(p.now, id)
			}
		}
	}
	p.run(5 * time.Minute)
	for _, x := range both {
		for _, id := range keys(x.conns) {
			x.Disconnect(p.now, id)
		}
		p.run(5 * time.Minute)
	}
	for _, x := range both {
		wantOrderly(p.t, x)
	}
	p.wantEmpty()
}

// keys returns the keys in order, so that each seed always gives the same run.
func keys(m map[wire.CommID]*conn) []wire.CommID { return slices.Sorted(maps.Keys(m)) }

func countEstablished(x *end) (n int) {
	for _, c := range x.conns {
		if c.state == established {
			n++
		}
	}
	return n
}

// wantOrderly checks the order of events that doc.go promises for each ID.
func wantOrderly(t *testing.T, x *end) {
	t.Helper()
	type history struct {
		begun, ended, closed bool
	}
	seen := map[wire.CommID]*history{}
	for _, ev := range x.events {
		h := seen[ev.ID]
		if h == nil {
			h = &history{}
			seen[ev.ID] = h
		}
		if h.closed {
			t.Fatalf("%v of %#x after closed: %v", ev.Kind, ev.ID, x.kinds())
		}
		switch ev.Kind {
		case EventRequest, EventReply:
			if h.begun || h.ended {
				t.Fatalf("%v of %#x twice, or after its end", ev.Kind, ev.ID)
			}
			h.begun = true
		case EventEstablished:
			if !h.begun || h.ended {
				t.Fatalf("%v of %#x out of order", ev.Kind, ev.ID)
			}
		case EventRejected, EventUnreachable, EventDisconnected:
			if h.ended {
				t.Fatalf("%#x ended twice", ev.ID)
			}
			h.ended = true
		case EventClosed:
			h.closed = true
		}
	}
	for id, h := range seen {
		if !h.closed {
			t.Errorf("%#x never closed: %s", id, x.kinds())
		}
	}
}

// A host and a target connect in spite of loss.
func TestLossyConnectSucceeds(t *testing.T) {
	for seed := range uint64(500) {
		p := newPair(t, seed)
		rng := rand.New(rand.NewPCG(seed, 4))
		p.filter = func(*end, wire.AttributeID) int { return min(1, rng.IntN(10)/3) } // 3 of 10 are lost
		p.jitter = 100 * time.Millisecond
		id := p.connect()
		p.run(30 * time.Second)
		p.wantEvents(p.a, EventReply)
		p.wantEvents(p.b, EventRequest, EventEstablished)
		p.a.Disconnect(p.now, id)
		p.run(30 * time.Second)
		p.wantEvents(p.a, EventReply, EventClosed)
		p.wantEvents(p.b, EventRequest, EventEstablished, EventDisconnected, EventClosed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
