package rc

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// region is registered memory of the test's own key table.
type region struct {
	mem    []byte
	iova   uint64
	key    uint32
	access rdmatransport.Access
}

// keys is a key table for one side.
type keys struct {
	regions []*region
}

func (k *keys) register(mem []byte, access rdmatransport.Access) *region {
	r := &region{mem: mem, iova: 0x10000 + uint64(len(k.regions))<<32, key: 0x100 + uint32(len(k.regions)), access: access}
	k.regions = append(k.regions, r)
	return r
}

func (k *keys) Local(key rdmatransport.LKey, buf []byte, write bool) bool {
	for _, r := range k.regions {
		if r.key == uint32(key) {
			return !write || r.access&rdmatransport.AccessLocalWrite != 0
		}
	}
	return false
}

func (k *keys) Remote(key rdmatransport.RKey, va uint64, n uint32, need rdmatransport.Access) ([]byte, bool) {
	for _, r := range k.regions {
		if r.key == uint32(key) && r.access&need == need && va >= r.iova && wire.InRange(va-r.iova, uint64(n), uint64(len(r.mem))) {
			return r.mem[va-r.iova:][:n], true
		}
	}
	return nil, false
}

func (k *keys) Invalidate(key rdmatransport.RKey) bool {
	for i, r := range k.regions {
		if r.key == uint32(key) {
			k.regions = append(k.regions[:i:i], k.regions[i+1:]...)
			return true
		}
	}
	return false
}

func (k *keys) Live(key rdmatransport.RKey) bool {
	return slices.ContainsFunc(k.regions, func(r *region) bool { return r.key == uint32(key) })
}

func (k *keys) Written(rdmatransport.RKey, uint32) {}

func (k *keys) Bind(rdmatransport.Window, rdmatransport.SGE, rdmatransport.Access) bool { return true }

// side is one end of a pair: a queue pair and its environment.
type side struct {
	*QP
	keys     *keys
	cq       *Completions
	store    *Store
	budget   *Budget
	counters Counters
	out      *Outbox
	sent     []sentPacket // log for tests that look at packets
}

type sentPacket struct {
	at  time.Duration
	pkt wire.Packet
}

type inFlight struct {
	at  time.Duration
	seq int
	to  *side
	b   []byte

	marked bool // whether a link has marked the packet for congestion
}

type flight []inFlight

func (f flight) Len() int { return len(f) }
func (f flight) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flight) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flight) Push(x any)   { *f = append(*f, x.(inFlight)) }
func (f *flight) Pop() any {
	x := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return x
}

// pair is two connected queue pairs, a network with faults, and virtual time.
type pair struct {
	t    testing.TB
	a, b *side
	now  time.Duration
	rng  *rand.Rand

	delay   time.Duration
	jitter  time.Duration // additional, uniform: reorders
	loss    float64
	dup     float64
	drop    func(to *side, p *wire.Packet) bool // faults chosen by a test
	network flight
	seq     int
}

type pairConfig struct {
	mtu      int
	own      bool
	sends    int
	recvs    int
	reads    int
	rnrRetry uint8
	budget   int
	psn      wire.PSN
	rate     RateConfig
}

func newPair(t testing.TB, c pairConfig) *pair {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.mtu, 1024)
	def(&c.sends, 64)
	def(&c.recvs, 64)
	def(&c.reads, 4)
	p := &pair{t: t, rng: rand.New(rand.NewPCG(1, 2)), delay: 50 * time.Microsecond}
	p.a, p.b = newSide(c, 0x11), newSide(c, 0x22)
	connect := func(s *side, qpn rdmatransport.QPN, send, recv wire.PSN) {
		if err := s.Connect(Peer{QPN: qpn, SendPSN: send, RecvPSN: recv, PathMTU: c.mtu, PKey: 0xffff, ReadsOut: c.reads,
			ReadsIn: c.reads, RetryCount: 7, RNRRetryCount: c.rnrRetry, AckTimeout: 500 * time.Millisecond, RNRDelay: 12, Own: c.own}); err != nil {
			t.Fatal(err)
		}
	}
	connect(p.a, 0x22, c.psn, c.psn.Add(77))
	connect(p.b, 0x11, c.psn.Add(77), c.psn)
	return p
}

func newSide(c pairConfig, qpn rdmatransport.QPN) *side {
	s := &side{keys: new(keys), cq: new(Completions), store: &Store{Limit: 512}, out: NewOutbox(64)}
	if c.budget > 0 {
		s.budget = &Budget{Limit: c.budget}
	}
	s.QP = New(Config{QPN: qpn, MaxSend: c.sends, MaxRecv: c.recvs, MaxSGE: 2, Keys: s.keys, Completions: s.cq,
		Counters: &s.counters, Store: s.store, Budget: s.budget, Rate: c.rate})
	return s
}

func (p *pair) other(s *side) *side {
	if s == p.a {
		return p.b
	}
	return p.a
}

// flush sends what s has ready.
func (p *pair) flush(s *side) {
	for {
		more := s.Transmit(p.now, s.out)
		for i := range s.out.Pkts {
			p.send(s, &s.out.Pkts[i])
		}
		s.out.Reset()
		if !more {
			return
		}
	}
}

func (p *pair) send(from *side, o *Out) {
	b := append([]byte(nil), o.Header[:o.HLen]...)
	for _, piece := range o.Pieces[:o.NPieces] {
		b = append(b, piece...)
	}
	b = append(b, make([]byte, int(o.Pad)+4)...)
	var pkt wire.Packet
	if f := wire.Parse(b, &pkt); f != 0 {
		p.t.Fatalf("sent an unparsable packet: %v % x", f, b[:o.HLen])
	}
	from.sent = append(from.sent, sentPacket{p.now, pkt})
	to := p.other(from)
	if p.drop != nil && p.drop(to, &pkt) {
		return
	}
	for range 1 + b2i(p.rng.Float64() < p.dup) {
		if p.rng.Float64() < p.loss {
			continue
		}
		at := p.now + p.delay
		if p.jitter > 0 {
			at += time.Duration(p.rng.Int64N(int64(p.jitter)))
		}
		p.seq++
		heap.Push(&p.network, inFlight{at: at, seq: p.seq, to: to, b: b})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// step delivers the next packet or fires the next deadline before limit.
func (p *pair) step(limit time.Duration) bool {
	next := min(p.a.Deadline(), p.b.Deadline())
	if len(p.network) > 0 {
		next = min(next, p.network[0].at)
	}
	if next > limit {
		return false
	}
	p.now = max(p.now, next)
	for len(p.network) > 0 && p.network[0].at <= p.now {
		f := heap.Pop(&p.network).(inFlight)
		var pkt wire.Packet
		wire.Parse(f.b, &pkt)
		f.to.Receive(p.now, &pkt)
		p.flush(f.to)
	}
	for _, s := range []*side{p.a, p.b} {
		if s.Deadline() <= p.now {
			s.Timeout(p.now)
		}
		p.flush(s)
	}
	return true
}

// run lets the time d pass.
func (p *pair) run(d time.Duration) {
	limit := p.now + d
	p.flush(p.a)
	p.flush(p.b)
	for p.step(limit) {
	}
	p.now = limit
}

// until runs until done, for at most d.
func (p *pair) until(d time.Duration, done func() bool) {
	p.t.Helper()
	limit := p.now + d
	p.flush(p.a)
	p.flush(p.b)
	for !done() {
		if !p.step(limit) {
			p.t.Fatalf("not done after %v", d)
		}
	}
}

func (s *side) poll() []rdmatransport.Completion {
	out := make([]rdmatransport.Completion, s.cq.Len())
	s.cq.Poll(out)
	return out
}

// want compares the completions of s with a list of "ID op status".
func (p *pair) want(s *side, list ...string) {
	p.t.Helper()
	var got []string
	for _, c := range s.poll() {
		got = append(got, fmt.Sprintf("%d %d %v", c.ID, c.Op, c.Status))
	}
	if fmt.Sprint(got) != fmt.Sprint(list) {
		p.t.Fatalf("completions\n got %q\nwant %q", got, list)
	}
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*13)
	}
	return b
}
