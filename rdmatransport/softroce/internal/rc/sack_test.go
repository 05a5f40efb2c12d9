package rc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestGoodputUnderLoss measures the goodput of 128 KiB transfers at depth 16 over a round trip of 1 ms with packet
// loss in both directions, relative to the goodput without loss. The quick form uses one seed.
func TestGoodputUnderLoss(t *testing.T) {
	stream := func(t *testing.T, reads bool, loss float64, seed uint64) float64 {
		s := newIncast(t, incastConfig{flows: 1, reads: reads, mtu: 4096, link: link{rate: 10 * gigabit}, delay: 500 * time.Microsecond,
			message: 128 << 10, depth: 16, loss: loss, answers: true, seed: seed})
		return s.measure(50*time.Millisecond, whole(300*time.Millisecond)).goodput
	}
	tries := uint64(1)
	if *long {
		tries = 3
	}
	for _, reads := range []bool{false, true} {
		clean := stream(t, reads, 0, 1)
		for _, c := range []struct{ loss, want float64 }{{0.001, 0.95}, {0.01, 0.8}, {0.05, 0.4}} {
			for seed := range tries {
				t.Run(fmt.Sprintf("reads %v, %v lost, seed %d", reads, c.loss, seed), func(t *testing.T) {
					got := stream(t, reads, c.loss, seed) / clean
					if t.Logf("%.3f", got); got < c.want {
						t.Errorf("want %v", c.want)
					}
				})
			}
		}
	}
}

// starts are first PSNs. With the second, the tests' PSNs wrap.
var starts = []wire.PSN{0, 0xfffffc}

// requests lists what a sent, relative to its first PSN.
func (p *pair) requests() string {
	var out []int32
	for _, s := range p.a.sent {
		if s.pkt.Opcode.Flags()&wire.FlagRequest != 0 {
			out = append(out, s.pkt.PSN.Diff(p.b.peer.RecvPSN))
		}
	}
	return fmt.Sprint(out)
}

// TestRepairs: exactly the lost packets are sent again.
func TestRepairs(t *testing.T) {
	for _, c := range []struct {
		name     string
		lost     []int
		more     int // SENDs posted after a round trip, when repairs are in flight
		want     string
		timeouts uint64
		trips    int // round trips until all is done, without timeouts
	}{
		{"two holes", []int{2, 5}, 0, "[0 1 2 3 4 5 6 7 8 9 2 5]", 0, 2},
		{"runs", []int{0, 1, 2, 6, 7}, 0, "[0 1 2 3 4 5 6 7 8 9 0 1 2 6 7]", 0, 2},
		{"a repair lost again, and found by the other", []int{2, 5, 10}, 0, "[0 1 2 3 4 5 6 7 8 9 2 5 2]", 0, 3},
		{"a repair lost again, and found by what follows", []int{2, 10}, 2, "[0 1 2 3 4 5 6 7 8 9 2 10 11 2]", 0, 3},
		{"a repair and what follows it", []int{2, 10, 11}, 3, "[0 1 2 3 4 5 6 7 8 9 2 10 11 12 2 10]", 0, 3},
		{"the tail", []int{6, 7, 8, 9}, 0, "[0 1 2 3 4 5 6 7 8 9 6 7 8 9]", 1, 0},
		{"a hole and the tail", []int{2, 8, 9}, 0, "[0 1 2 3 4 5 6 7 8 9 2 8 9]", 0, 3},
		{"the last repair", []int{2, 10}, 0, "[0 1 2 3 4 5 6 7 8 9 2 2]", 1, 0},
		{"the probe", []int{9, 10}, 0, "[0 1 2 3 4 5 6 7 8 9 9 9]", 2, 0},
	} {
		for _, psn := range starts {
			t.Run(fmt.Sprintf("%s from %#x", c.name, psn), func(t *testing.T) {
				p := newPair(t, pairConfig{own: true, psn: psn})
				p.sends(10, 100)
				p.lose(c.lost...)
				p.run(2*p.delay + 5*time.Microsecond)
				if c.more > 0 {
					p.sends(c.more, 100)
				}
				p.until(time.Second, func() bool { return p.a.cq.Len() == 10+c.more })
				done := p.now
				p.run(time.Second)
				if got := p.requests(); got != c.want {
					t.Errorf("sent %s\nwant %s", got, c.want)
				}
				if n := p.a.counters.Timeouts; n != c.timeouts {
					t.Errorf("%d timeouts, want %d", n, c.timeouts)
				}
				if limit := time.Duration(c.trips) * 2 * p.delay; c.timeouts == 0 && done > limit+askedDelay+5*time.Microsecond {
					t.Errorf("took %v, want %v", done, limit)
				}
				p.a.poll()
				p.b.poll()
				p.checkQuiet(t.Errorf)
			})
		}
	}
}

// TestLostBitmaps: the next bitmap makes up for a lost one.
func TestLostBitmaps(t *testing.T) {
	p := newPair(t, pairConfig{own: true})
	p.sends(10, 100)
	lost, count := 0, 0
	p.drop = func(to *side, pkt *wire.Packet) bool {
		if to == p.a {
			lost += b2i(len(pkt.Payload) > 0 && lost < 4)
			return len(pkt.Payload) > 0 && lost < 4
		}
		count++
		return count == 3 || count == 6
	}
	p.run(time.Second)
	if got := p.requests(); got != "[0 1 2 3 4 5 6 7 8 9 2 5]" || p.a.counters.Timeouts > 0 || lost != 4 {
		t.Errorf("sent %s, %d timeouts, %d bitmaps lost", got, p.a.counters.Timeouts, lost)
	}
}

// mixed posts requests of a: 'w' a WRITE of one packet, 'r' a READ of three.
func (p *pair) mixed(list string) {
	into := p.b.keys.register(pattern(3*1024, 2), rdmatransport.AccessRemoteWrite|rdmatransport.AccessRemoteRead)
	local := p.a.keys.register(make([]byte, 3*1024), rdmatransport.AccessLocalWrite)
	for i, kind := range list {
		wr := rdmatransport.SendWR{ID: uint64(i), Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, RemoteAddr: into.iova,
			RKey: rdmatransport.RKey(into.key), SGL: []rdmatransport.SGE{{Buf: local.mem, LKey: rdmatransport.LKey(local.key)}}}
		if kind == 'w' {
			wr.Op, wr.SGL[0].Buf = rdmatransport.OpWrite, local.mem[:1024]
		}
		p.post(wr)
	}
}

// TestRepairedReads: PSNs within a READ are not request packets; lost requests and responses are asked for
// separately.
func TestRepairedReads(t *testing.T) {
	for _, c := range []struct {
		name      string
		posts     string
		requests  []int // lost, of those sent by a
		responses []int // lost, of those sent by b
		want      string
		timeouts  uint64
	}{
		{"a hole before READs", "wrrw", []int{0}, nil, "[0 1 4 7 0]", 0},
		{"holes between READs", "wrwrw", []int{0, 2}, nil, "[0 1 4 5 8 0 4]", 0},
		{"a READ among WRITEs", "wrww", []int{1}, nil, "[0 1 4 5 1]", 0},
		{"READs in a row", "rrrw", []int{0, 1}, nil, "[0 3 6 9 0 3]", 0},
		{"the last READ", "wwr", []int{2}, nil, "[0 1 2 2]", 1},
		{"the last READs", "rrr", []int{1, 2}, nil, "[0 3 6 3 6]", 1},
		{"one response", "rr", nil, []int{1}, "[0 3 1]", 0},
		{"two holes in the responses", "rrr", nil, []int{1, 4, 5}, "[0 3 6 1 4]", 0},
		{"a whole response", "rr", nil, []int{0, 1, 2}, "[0 3 0]", 0},
		{"the end of a response", "r", nil, []int{2}, "[0 2]", 1},
		{"all of it", "r", nil, []int{0, 1, 2}, "[0 0]", 1},
		{"the end, shown by an acknowledgement", "rw", nil, []int{2}, "[0 3 2]", 0},
		{"the response again", "rr", nil, []int{1, 6}, "[0 3 1 1]", 1},
		{"the request of the response", "rr", []int{2}, []int{1}, "[0 3 1 1]", 1},
		{"one of the responses again", "rr", nil, []int{1, 4, 6}, "[0 3 1 4 1]", 0},
		{"a READ and a response", "rrrw", []int{1}, []int{1}, "[0 3 6 9 1 3]", 0},
	} {
		for _, psn := range starts {
			t.Run(fmt.Sprintf("%s from %#x", c.name, psn), func(t *testing.T) {
				p := newPair(t, pairConfig{own: true, psn: psn, reads: 8})
				p.mixed(c.posts)
				var count [2]int
				p.drop = func(to *side, pkt *wire.Packet) bool {
					i, lost := 0, c.requests
					if to == p.a {
						i, lost = 1, c.responses
					}
					if i == 1 && pkt.Opcode.Flags()&wire.FlagReadResponse == 0 {
						return false
					}
					defer func() { count[i]++ }()
					return slices.Contains(lost, count[i])
				}
				p.run(time.Second)
				if got := p.requests(); got != c.want || p.a.counters.Timeouts != c.timeouts {
					t.Errorf("sent %s, %d timeouts\nwant %s, %d", got, p.a.counters.Timeouts, c.want, c.timeouts)
				}
				if n := len(p.a.poll()); n != len(c.posts) || p.a.counters.DuplicateResponses > 0 {
					t.Errorf("%d completions, %d responses too many", n, p.a.counters.DuplicateResponses)
				}
				if p.a.req.inflight != 0 || p.a.req.reading != 0 {
					t.Errorf("%d and %d bytes counted as under way", p.a.req.inflight, p.a.req.reading)
				}
				p.checkQuiet(t.Errorf)
			})
		}
	}
}

// TestNotReadyOwn: packets that followed a SEND without a receive are not sent again.
func TestNotReadyOwn(t *testing.T) {
	for _, psn := range starts {
		p := newPair(t, pairConfig{own: true, psn: psn, rnrRetry: 7})
		out := p.a.keys.register(pattern(100, 1), 0)
		for i := range uint64(4) {
			p.post(rdmatransport.SendWR{ID: i, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
				SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}})
		}
		p.run(300 * time.Microsecond)
		in := p.b.keys.register(make([]byte, 100), rdmatransport.AccessLocalWrite)
		for i := range uint64(4) {
			p.recv(i, in)
		}
		p.run(time.Second)
		p.want(p.a, "0 0 success", "1 0 success", "2 0 success", "3 0 success")
		if got := p.requests(); got != "[0 1 2 3 0]" || p.a.counters.Timeouts > 0 {
			t.Errorf("sent %s, %d timeouts", got, p.a.counters.Timeouts)
		}
	}
}

// TestBitmap tests the format.
func TestBitmap(t *testing.T) {
	p := newPair(t, pairConfig{own: true, psn: 0xfffffe})
	p.sends(50, 10)
	p.lose(0, 1, 4, 38)
	p.run(p.delay + time.Microsecond)
	last := p.b.sent[len(p.b.sent)-1].pkt
	want := []byte{0xf6, 0xff, 0xff, 0xff, 0xdf, 0xff, 0x01, 0}
	if last.PSN != 0xfffffd || last.AETH.Syndrome != wire.SyndromeAck || !slices.Equal(last.Payload, want) {
		t.Errorf("%v %#x % x, want % x", last.PSN, last.AETH.Syndrome, last.Payload, want)
	}
}
