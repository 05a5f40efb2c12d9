package rc

import (
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	gigabit = 1e9 / 8
	kmax    = 160 << 10
)

// marking is a bottleneck with the thresholds of the DCQCN paper, scaled, and room for the initial windows of all
// senders.
func marking(rate float64) link {
	return link{rate: rate, limit: 4000, kmin: 40 << 10, kmax: kmax, pmax: 0.01}
}

// eachIncast runs f for both directions of bulk data, 2, 8 and 32 senders and two path MTUs. The quick form uses each
// of these in at least one setting.
func eachIncast(t *testing.T, f func(t *testing.T, c incastConfig)) {
	for _, reads := range []bool{false, true} {
		for _, n := range []int{2, 8, 32} {
			for _, mtu := range []int{1024, 4096} {
				if quick := reads == (n == 8) && (mtu == 1024) == reads; !*long && !quick {
					continue
				}
				name := fmt.Sprintf("%s from %d, MTU %d", map[bool]string{false: "WRITE", true: "READ"}[reads], n, mtu)
				t.Run(name, func(t *testing.T) {
					f(t, incastConfig{flows: n, reads: reads, mtu: mtu, delay: 20 * time.Microsecond, jitter: 2 * time.Microsecond, seed: 1})
				})
			}
		}
	}
}

// TestIncastMarked: many senders share a link that marks fairly, keep it busy and lose nothing. Its queue first holds
// the initial windows, and later little more than the threshold at which all packets are marked.
func TestIncastMarked(t *testing.T) {
	eachIncast(t, func(t *testing.T, c incastConfig) {
		c.link = marking(10 * gigabit)
		s := newIncast(t, c)
		r := s.measure(30*time.Millisecond, whole(60*time.Millisecond))
		t.Log(r)
		begin := c.flows*(firstWindow+firstWindow/8)/c.mtu + 4*kmax/c.mtu
		if r.utilisation < 0.9 || r.jain < 0.9 || r.drops > 0 || r.queue > begin || r.steady > 4*kmax/c.mtu {
			t.Errorf("want utilisation and Jain's index of 0.9, at most %d packets in the queue, %d later, and no loss", begin, 4*kmax/c.mtu)
		}
		s.checkCNPs()
	})
}

// checkCNPs: "at most one per 50 us and queue pair".
func (s *incast) checkCNPs() {
	for _, f := range s.flows {
		for i := 1; i < len(f.cnpAt); i++ {
			if d := f.cnpAt[i] - f.cnpAt[i-1]; d < 50*time.Microsecond {
				s.t.Fatalf("two CNPs within %v", d)
			}
		}
		if f.a.counters.CNPsGot+f.b.counters.CNPsGot == 0 || f.a.counters.RateReductions == 0 {
			s.t.Fatal("a sender that was never slowed")
		}
	}
}

// TestIncastDropping uses a queue of ten packets that drops and does not mark. The quick form has large packets on
// fast links only, and small ones on slow links.
func TestIncastDropping(t *testing.T) {
	for _, gigabits := range []float64{1, 10} {
		for _, access := range []float64{1, 2.5} {
			for _, n := range []int{2, 8, 32} {
				for _, mtu := range []int{1024, 4096} {
					if quick := (gigabits == 1) == (mtu == 1024); !*long && !quick {
						continue
					}
					t.Run(fmt.Sprintf("%v Gb/s, links %v times that, %d senders, MTU %d", gigabits, access, n, mtu), func(t *testing.T) {
						jitter := time.Duration(2 * 8 * float64(mtu) / gigabits) // two packets
						s := newIncast(t, incastConfig{flows: n, mtu: mtu, link: link{rate: gigabits * gigabit, limit: 10},
							access: access, delay: 20 * time.Microsecond, jitter: jitter, seed: 1})
						r := s.measure(whole(30*time.Millisecond), whole(time.Duration(50+100/gigabits)*time.Millisecond))
						t.Log(r)
						if r.goodput < 0.6 {
							t.Error("want a goodput of 0.6")
						}
					})
				}
			}
		}
	}
}

// TestIncastReadsDropping does the same for responses.
func TestIncastReadsDropping(t *testing.T) {
	for _, n := range []int{2, 8, 32} {
		for _, mtu := range []int{1024, 4096} {
			if quick := (n == 8) == (mtu == 1024); !*long && !quick {
				continue
			}
			t.Run(fmt.Sprintf("%d senders, MTU %d", n, mtu), func(t *testing.T) {
				s := newIncast(t, incastConfig{flows: n, reads: true, mtu: mtu, link: link{rate: 10 * gigabit, limit: 10},
					access: 2.5, delay: 20 * time.Microsecond, jitter: 6 * time.Microsecond, seed: 1})
				r := s.measure(whole(30*time.Millisecond), whole(60*time.Millisecond))
				t.Log(r)
				if r.goodput < 0.6 {
					t.Error("want a goodput of 0.6")
				}
			})
		}
	}
}

// TestIgnoredCNPs: peers that ignore CNPs, as rxe does, are not slowed down.
func TestIgnoredCNPs(t *testing.T) {
	for _, own := range []bool{false, true} {
		s := newIncast(t, incastConfig{flows: 4, mtu: 1024, foreign: !own, link: marking(10 * gigabit), delay: 20 * time.Microsecond,
			rate: RateConfig{Ignore: true}, seed: 1})
		r := s.measure(20*time.Millisecond, whole(50*time.Millisecond))
		t.Log(r)
		if r.utilisation < 0.99 || r.drops > 0 || r.reductions > 0 || r.cnps == 0 {
			t.Errorf("own kind %v: does not work as without congestion control", own)
		}
	}
}

// TestRateReturns: 20 ms after the other senders have stopped, one sender uses the whole link, and 40 ms later its
// rate is no longer limited.
func TestRateReturns(t *testing.T) {
	for _, reads := range []bool{false, true} {
		s := newIncast(t, incastConfig{flows: 8, reads: reads, mtu: 4096, link: marking(10 * gigabit), delay: 20 * time.Microsecond, seed: 1})
		s.run(50 * time.Millisecond)
		if !s.flows[0].a.rate.on {
			t.Fatal("no rate control")
		}
		for _, f := range s.flows[1:] {
			f.stopped = true
		}
		s.run(70 * time.Millisecond)
		s.flows[0].done = 0
		s.run(110 * time.Millisecond)
		share := float64(s.flows[0].done) / (s.link.rate * 0.040)
		if t.Logf("reads %v: %.3f of the link", reads, share); share < 0.95 {
			t.Error("less than the link carries")
		}
		if s.flows[0].a.rate.on {
			t.Error("a rate limit that limits nothing is still there")
		}
	}
}

// TestCNPs: one CNP per mark; none within the interval, and never one for a CNP.
func TestCNPs(t *testing.T) {
	p := newPair(t, pairConfig{own: true})
	data := &wire.Packet{Opcode: wire.RCSendOnly}
	sent := func() int { return int(p.b.counters.CNPsSent) }
	mark := func(at time.Duration, pkt *wire.Packet) {
		p.now = at
		p.b.Marked(p.now, pkt)
		p.flush(p.b)
	}
	for _, c := range []struct {
		at   time.Duration
		pkt  *wire.Packet
		want int
	}{
		{time.Millisecond, &wire.Packet{Opcode: wire.CNP}, 0},
		{time.Millisecond, data, 1},
		{time.Millisecond + 49*time.Microsecond, data, 1},
		{time.Millisecond + 50*time.Microsecond, data, 2},
	} {
		if mark(c.at, c.pkt); sent() != c.want {
			t.Errorf("%d CNPs after a mark at %v, want %d", sent(), c.at, c.want)
		}
	}
	first := p.b.sent[0].pkt
	if first.Opcode != wire.CNP || !first.BECN || first.DestQPN != 0x11 || first.PSN != 0 {
		t.Errorf("%+v", first)
	}
	p.run(time.Millisecond)
	if got := p.a.counters.CNPsGot; got != 2 || p.a.counters.NotRC != 0 || p.b.counters.CNPsSent != 2 {
		t.Errorf("%d CNPs arrived", got)
	}
	p.b.Fail(rdmatransport.ErrClosed)
	if mark(2*time.Millisecond, data); sent() != 2 {
		t.Error("a CNP from a queue pair that is not connected")
	}
}

// TestReduction follows the equations of DCQCN, section 3.1.
func TestReduction(t *testing.T) {
	c := RateConfig{Gain: 0.5}
	c.setDefaults()
	q := New(Config{QPN: 1, MaxSend: 1, MaxRecv: 1, MaxSGE: 1, Keys: new(keys), Completions: new(Completions), Counters: new(Counters),
		Store: new(Store), Rate: c})
	now := time.Duration(0)
	q.congested(now, 1)
	q.paced(now, 1_000_000) // measured
	now += time.Millisecond
	q.congested(now, 1)
	want := func(rate, target Rate, alpha float64) {
		t.Helper()
		near := func(a, b float64) bool { return a > b*0.999 && a < b*1.001 }
		if r := &q.rate; !near(float64(r.rate), float64(rate)) || !near(float64(r.target), float64(target)) || !near(r.alpha, alpha) {
			t.Fatalf("rate %.0f, target %.0f, alpha %.4f; want %.0f, %.0f, %.4f", r.rate, r.target, r.alpha, rate, target, alpha)
		}
	}
	alpha := 1.0
	for range int(time.Millisecond / c.AlphaPeriod) {
		alpha /= 2
	}
	alpha = alpha/2 + 0.5
	want(Rate(1e9*(1-alpha/2)), 1e9, alpha)
	before := q.rate.rate
	q.rate.sent = 1e6
	q.rate.rise(now+c.IncreasePeriod, &c, 0)
	want((before+1e9)/2, 1e9, alpha)
	q.rate.timeRounds = c.FastRounds
	q.rate.step(&c) // the last of fast recovery
	q.rate.timeRounds++
	q.rate.step(&c)
	if q.rate.target != 1e9+c.AdditiveStep {
		t.Errorf("target %.0f after an additive rise", q.rate.target)
	}
}

// TestPacedAllocations: congestion control does not allocate.
func TestPacedAllocations(t *testing.T) {
	q := New(Config{QPN: 1, MaxSend: 1, MaxRecv: 1, MaxSGE: 1, Keys: new(keys), Completions: new(Completions), Counters: new(Counters), Store: new(Store)})
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 100 * time.Microsecond
		q.congested(now, 1)
		q.paced(now, 4096)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBucket: the bucket allows its rate, even if turns are late, and a small burst after a pause.
func TestBucket(t *testing.T) {
	const rate = Rate(100e6)
	for _, late := range []time.Duration{0, 10 * time.Microsecond, 50 * time.Microsecond} {
		var b bucket
		now, taken := time.Second, 0
		for now < 2*time.Second {
			if b.take(now, 4096, rate) {
				taken += 4096
			} else {
				now = b.resume + late
			}
		}
		if taken < 99e6 || taken > 101e6 {
			t.Errorf("turns late by %v: %d bytes in a second", late, taken)
		}
	}
	b, burst := bucket{}, 0
	for b.take(time.Minute, 1024, rate) {
		burst += 1024
	}
	if burst > burstBytes+1024 {
		t.Errorf("a burst of %d bytes", burst)
	}
	if !b.take(time.Minute, smallData, rate) {
		t.Error("a command is held back")
	}
}
