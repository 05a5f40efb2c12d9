package rc

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// link is the bottleneck: a queue that marks or drops.
type link struct {
	rate       float64 // bytes per second
	limit      int     // packets that it holds; further ones are dropped
	kmin, kmax int     // bytes in the queue: marks from 0 to pmax of the packets, and all beyond kmax; 0: no marks
	pmax       float64

	free    time.Duration // time when it has sent all packets in its queue
	leaving []time.Duration
	maximum int // packets
	drops   int
	marks   int
	carried int // bytes
}

// pass returns the time at which a packet of n bytes leaves the link, or false if it is dropped.
func (l *link) pass(now time.Duration, n int, rng *rand.Rand) (at time.Duration, marked, ok bool) {
	for len(l.leaving) > 0 && l.leaving[0] <= now {
		l.leaving = l.leaving[1:]
	}
	if l.limit > 0 && len(l.leaving) >= l.limit {
		l.drops++
		return 0, false, false
	}
	queued := int((l.free - now).Seconds() * l.rate)
	if l.kmax > 0 && queued > l.kmin {
		p := l.pmax * float64(queued-l.kmin) / float64(l.kmax-l.kmin)
		marked = queued > l.kmax || rng.Float64() < p
		l.marks += b2i(marked)
	}
	l.free = max(l.free, now) + time.Duration(float64(n)/l.rate*1e9)
	l.leaving = append(l.leaving, l.free)
	l.maximum = max(l.maximum, len(l.leaving))
	l.carried += n
	return l.free, marked, true
}

// flow is one sender and its receiver, whose data goes through the bottleneck:
// SENDs from a, or responses to READs of b.
type flow struct {
	a, b    *side
	access  link          // of a
	exit    time.Duration // time at which its last packet leaves
	next    uint64
	done    int // bytes, since the measurement began
	cnpAt   []time.Duration
	stopped bool // posts no further requests
}

type incastConfig struct {
	flows   int
	reads   bool
	foreign bool // the receivers send no CNPs and are not softroce
	mtu     int
	link    link
	delay   time.Duration // one way
	access  float64       // speed of the senders' links relative to the bottleneck; 0: the same
	jitter  time.Duration // of the access links
	rate    RateConfig
	seed    uint64
	message int     // bytes; 0: incastMessage
	depth   int     // 0: incastDepth
	loss    float64 // of all packets, in both directions
	answers bool    // a SEND follows each WRITE
}

// incast is many queue pairs that send through one bottleneck, in virtual time.
type incast struct {
	t     testing.TB
	c     incastConfig
	link  link
	rng   *rand.Rand
	now   time.Duration
	flows []*flow
	of    map[*side]*flow
	air   flight
	spare [][]byte // packets that were delivered
	seq   int
}

const (
	incastMessage = 64 << 10
	incastDepth   = 8                        // messages outstanding, of each flow
	wireOverhead  = 14 + 20 + 8 + 4 + 4 + 20 // Ethernet, IPv4, UDP, ICRC, FCS, preamble and gap
)

func newIncast(t testing.TB, c incastConfig) *incast {
	if c.message == 0 {
		c.message, c.depth = incastMessage, incastDepth
	}
	s := &incast{t: t, c: c, link: c.link, rng: rand.New(rand.NewPCG(c.seed, 1)), of: map[*side]*flow{}}
	for range c.flows {
		p := newPair(t, pairConfig{mtu: c.mtu, own: !c.foreign, reads: c.depth * 8, rate: c.rate})
		f := &flow{a: p.a, b: p.b, access: link{rate: c.link.rate * max(1, c.access)}}
		s.flows = append(s.flows, f)
		s.of[f.a], s.of[f.b] = f, f
		from := f.a.keys.register(pattern(c.message, 1), rdmatransport.AccessRemoteRead)
		into := f.b.keys.register(make([]byte, c.message), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteWrite)
		for range c.depth {
			s.post(f, from, into)
		}
	}
	return s
}

func (s *incast) post(f *flow, from, into *region) {
	f.next++
	wr := rdmatransport.SendWR{ID: f.next, Flags: rdmatransport.FlagSignaled}
	poster := f.a
	if s.c.reads {
		poster = f.b
		wr.Op, wr.RemoteAddr, wr.RKey = rdmatransport.OpRead, from.iova, rdmatransport.RKey(from.key)
		wr.SGL = []rdmatransport.SGE{{Buf: into.mem, LKey: rdmatransport.LKey(into.key)}}
	} else {
		wr.Op, wr.RemoteAddr, wr.RKey = rdmatransport.OpWrite, into.iova, rdmatransport.RKey(into.key)
		wr.SGL = []rdmatransport.SGE{{Buf: from.mem, LKey: rdmatransport.LKey(from.key)}}
	}
	wrs := []rdmatransport.SendWR{wr}
	if s.c.answers && !s.c.reads {
		wrs[0].Flags = rdmatransport.FlagRelaxed
		wr.Op, wr.SGL = rdmatransport.OpSend, []rdmatransport.SGE{{Buf: from.mem[:16], LKey: rdmatransport.LKey(from.key)}}
		wrs = append(wrs, wr)
		recv := rdmatransport.RecvWR{SGL: []rdmatransport.SGE{{Buf: into.mem[:16], LKey: rdmatransport.LKey(into.key)}}}
		if err := f.b.PostRecv([]rdmatransport.RecvWR{recv}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := poster.PostSend(wrs); err != nil {
		s.t.Fatal(err)
	}
}

// again posts a request for each one that has completed.
func (s *incast) again(f *flow) {
	for _, side := range []*side{f.a, f.b} {
		for _, c := range side.poll() {
			if c.Status != rdmatransport.StatusSuccess {
				s.t.Fatalf("%v after %v", c.Status, s.now)
			}
			if c.Op == rdmatransport.OpRecv {
				continue
			}
			f.done += s.c.message
			if f.stopped {
				continue
			}
			s.post(f, f.a.keys.regions[0], f.b.keys.regions[0])
		}
	}
}

func (s *incast) flush(x *side) {
	f := s.of[x]
	s.again(f)
	for more := true; more; {
		more = x.Transmit(s.now, x.out)
		for i := range x.out.Pkts {
			s.send(f, x, &x.out.Pkts[i])
		}
		x.out.Reset()
	}
}

// packet returns an empty buffer large enough for any packet.
func (s *incast) packet() []byte {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return b[:0]
	}
	return make([]byte, 0, s.c.mtu+128)
}

// padding stands for a payload's padding and an ICRC that is not checked.
var padding [3 + 4]byte

func (s *incast) send(f *flow, from *side, o *Out) {
	b := append(s.packet(), o.Header[:o.HLen]...)
	for _, piece := range o.Pieces[:o.NPieces] {
		b = append(b, piece...)
	}
	b = append(b, padding[:o.Pad+4]...)
	if wire.Opcode(b[0]) == wire.CNP {
		f.cnpAt = append(f.cnpAt, s.now)
		if s.c.foreign {
			return
		}
	}
	if s.c.loss > 0 && s.rng.Float64() < s.c.loss {
		return
	}
	s.seq++
	d := inFlight{at: s.now + s.c.delay, seq: s.seq, to: f.b, b: b}
	if from == f.b {
		d.to = f.a // no bottleneck in that direction
	} else {
		n := len(b) + wireOverhead
		sent, _, _ := f.access.pass(s.now, n, s.rng)
		if s.c.jitter > 0 {
			sent = max(f.exit, sent+time.Duration(s.rng.Int64N(int64(s.c.jitter))))
			f.exit = sent
		}
		out, marked, ok := s.link.pass(sent, n, s.rng)
		if !ok {
			return
		}
		d.at, d.marked = out+s.c.delay, marked
	}
	heap.Push(&s.air, d)
}

// run advances the time to at.
func (s *incast) run(at time.Duration) {
	for _, f := range s.flows {
		s.flush(f.a)
		s.flush(f.b)
	}
	for {
		next := at
		for _, f := range s.flows {
			next = min(next, f.a.Deadline(), f.b.Deadline())
		}
		if len(s.air) > 0 {
			next = min(next, s.air[0].at)
		}
		if next >= at {
			break
		}
		s.now = max(s.now, next)
		s.deliver()
		for _, f := range s.flows {
			for _, x := range []*side{f.a, f.b} {
				if x.Deadline() <= s.now {
					x.Timeout(s.now)
					s.flush(x)
				}
			}
		}
	}
	s.now = at
}

func (s *incast) deliver() {
	for len(s.air) > 0 && s.air[0].at <= s.now {
		d := heap.Pop(&s.air).(inFlight)
		var pkt wire.Packet
		wire.Parse(d.b, &pkt)
		if d.marked {
			d.to.Marked(s.now, &pkt)
		}
		d.to.Receive(s.now, &pkt)
		s.spare = append(s.spare, d.b)
		s.flush(d.to)
	}
}

var long = flag.Bool("long", false, "measure rates under congestion and loss in all settings, and for four times as long")

// whole returns d in the long form of a measurement and a quarter of it in the quick one. Time is virtual and
// everything is seeded, so each form gives the same figures every time.
func whole(d time.Duration) time.Duration {
	if *long {
		return d
	}
	return d / 4
}

// figures are the results of a run.
type figures struct {
	utilisation, goodput, jain float64
	queue, steady              int // maximum length of the queue in packets: ever, and during the measurement
	drops, marks               int
	reductions, cnps           uint64
}

// measure runs for warm, then measures for d. The queue's maximum covers both.
func (s *incast) measure(warm, d time.Duration) (r figures) {
	s.run(warm)
	carried, queue := s.link.carried, s.link.maximum
	s.link.maximum = 0
	for _, f := range s.flows {
		f.done = 0
	}
	s.run(warm + d)
	sum, squares := 0.0, 0.0
	for _, f := range s.flows {
		x := float64(f.done)
		sum += x
		squares += x * x
		r.reductions += f.a.counters.RateReductions
		r.cnps += f.a.counters.CNPsSent + f.b.counters.CNPsSent
	}
	capacity := s.link.rate * d.Seconds()
	r.utilisation = float64(s.link.carried-carried) / capacity
	r.goodput = sum / capacity
	r.jain = sum * sum / (squares * float64(len(s.flows)))
	r.steady, r.queue = s.link.maximum, max(queue, s.link.maximum)
	r.drops, r.marks = s.link.drops, s.link.marks
	return r
}

func (r figures) String() string {
	return fmt.Sprintf("utilisation %.3f, goodput %.3f, Jain %.3f, queue at most %d then %d packets, %d dropped, %d marked, %d CNPs, %d reductions",
		r.utilisation, r.goodput, r.jain, r.queue, r.steady, r.drops, r.marks, r.cnps, r.reductions)
}
