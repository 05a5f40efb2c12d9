package shard

import (
	"net/netip"
	"testing"
	"time"
)

// budgetRig is a budget of 100 bytes with three consumers of one party.
type budgetRig struct {
	t       *testing.T
	s       *Shard
	b       *Budget
	rs      [3]recorder
	claims  [3]Claim
	retried [3]int
}

func newBudgetRig(t *testing.T) *budgetRig {
	r := &budgetRig{t: t, s: &Shard{cq: newFakeCQ()}}
	r.b = &r.s.budget
	r.b.open(r.s, 100)
	for i := range r.rs {
		r.rs[i].retry = func() { r.retried[i]++ }
		r.s.Attach(&r.rs[i].slot, &r.rs[i])
	}
	return r
}

// grant makes consumer i take bytes, or wait for as many as it may take at a time.
func (r *budgetRig) grant(i, least, most, want int) {
	r.t.Helper()
	got := r.b.own.Take(&r.claims[i], least, most)
	if got != want {
		r.t.Fatalf("granted %d of %d to %d beside %d, want %d", got, least, most, r.b.Used(), want)
	}
	if got == 0 {
		n := r.b.Portion(least, most)
		r.b.own.Wait(&r.claims[i], &r.rs[i].slot, n, n)
	}
}

func TestBudget(t *testing.T) {
	r := newBudgetRig(t)
	s, b, claims, retried := r.s, r.b, &r.claims, &r.retried
	take := func(i, n int, ok bool) {
		t.Helper()
		r.grant(i, n, n, n*map[bool]int{true: 1}[ok])
	}
	take(0, 60, true)
	take(1, 50, false)
	take(2, 10, false) // fits, but another waits
	b.Give(60)
	s.serveRetries()
	if retried[1] != 1 || retried[2] != 1 {
		t.Fatalf("retries %v, want all for whom there is room", retried)
	}
	take(0, 41, false) // not available in addition to what was granted
	take(2, 10, true)
	take(1, 50, true)
	b.Give(10)
	s.serveRetries()
	if retried[0] != 1 {
		t.Fatalf("retries %v: the next in the queue was not told", retried)
	}
	take(0, 41, true)
	b.Give(41)
	take(0, 500, false)
	take(1, 5, false)
	claims[1].Cancel()
	b.Give(50)
	take(0, 500, true) // beyond the limit: only when nothing else is taken
	take(1, 1, false)
	claims[1].Cancel()
	b.Give(500)
	take(2, 100, true)
	if b.Used() != 100 {
		t.Errorf("%d bytes used, want 100", b.Used())
	}
}

// TestBudgetGrants: how much of a request is granted.
func TestBudgetGrants(t *testing.T) {
	r := newBudgetRig(t)
	b, grant := r.b, r.grant
	grant(0, 5, 20, 20)
	grant(0, 5, 70, 25) // a quarter
	grant(0, 50, 60, 50)
	grant(1, 2, 20, 5) // the rest
	grant(1, 2, 4, 0)
	grant(2, 2, 3, 0)
	grant(1, 2, 10, 0) // it now wants more
	b.Give(9)
	if r.claims[1].granted > 0 {
		t.Error("granted although there is not room for all")
	}
	b.Give(11)
	if r.claims[1].granted != 10 || r.claims[2].granted != 3 {
		t.Error("not granted")
	}
	grant(1, 40, 40, 0) // more than it has: it returns that and waits behind the others
	grant(2, 2, 20, 3)
	b.Give(23)
	grant(1, 40, 40, 40)
	none := &Budget{}
	none.open(r.s, 0)
	if none.own.Take(&r.claims[0], 1, 1<<40) != 1<<40 {
		t.Error("a budget without limit refused")
	}
}

// A drawer is a party that takes from a budget with a number of consumers, each with a number of outstanding transfers.
type drawer struct {
	allowance Allowance
	size      int
	depth     int
	claims    []Claim
	slots     []recorder
	flying    []int
	got       int // transfers
}

func newDrawer(s *Shard, b *Budget, consumers, depth, size int) *drawer {
	d := &drawer{size: size, depth: depth, claims: make([]Claim, consumers), slots: make([]recorder, consumers), flying: make([]int, consumers)}
	d.allowance.Open(b)
	for i := range d.slots {
		d.slots[i].retry = func() { d.fill(i) }
		s.Attach(&d.slots[i].slot, &d.slots[i])
	}
	return d
}

// fill makes a consumer begin what it may.
func (d *drawer) fill(i int) {
	granted := 0
	for d.flying[i] < d.depth {
		if granted < d.size {
			d.allowance.Return(granted)
			if granted = d.allowance.Take(&d.claims[i], d.size, d.size); granted == 0 {
				d.allowance.Wait(&d.claims[i], &d.slots[i].slot, d.size, (d.depth-d.flying[i])*d.size)
				return
			}
		}
		granted -= d.size
		d.flying[i]++
		d.got++
	}
	d.allowance.Return(granted)
}

// end ends all that is outstanding.
func (d *drawer) end(b *Budget) {
	for i, n := range d.flying {
		d.flying[i] = 0
		for range n {
			b.Give(d.size)
		}
	}
}

// TestAllowancesAreEqual: parties that want as much as they can get receive the same number of bytes, whatever the
// number of their consumers and the number and size of their outstanding transfers.
func TestAllowancesAreEqual(t *testing.T) {
	type host struct{ queues, depth, size int }
	many := func(n int) (hosts []host) {
		for i := range n {
			hosts = append(hosts, host{1 + i%8, 8 << (i % 4), 16 << 10})
		}
		return hosts
	}
	for _, c := range []struct {
		name  string
		limit int // that no party reaches alone
		hosts []host
	}{
		{"queues", 1 << 20, []host{{1, 16, 128 << 10}, {32, 16, 128 << 10}}},
		{"queues and depth", 4 << 20, []host{{1, 64, 128 << 10}, {32, 128, 128 << 10}}},
		{"sizes", 1 << 20, []host{{1, 128, 16 << 10}, {1, 128, 128 << 10}}},
		{"a small limit", 70 << 10, []host{{1, 16, 4 << 10}, {32, 16, 16 << 10}}},
		{"16", 1 << 20, many(16)},
		{"256", 16 << 20, many(256)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Shard{cq: newFakeCQ()}
			b := &s.budget
			b.open(s, c.limit)
			var ds []*drawer
			for _, h := range c.hosts {
				ds = append(ds, newDrawer(s, b, h.queues, h.depth, h.size))
			}
			turn := func() {
				for _, d := range ds {
					for i := range d.claims {
						d.fill(i)
					}
				}
				s.serveRetries()
			}
			const turns = 100
			for i := range turns {
				if i == turns/4 {
					for _, d := range ds {
						d.got = 0
					}
				}
				turn()
				for _, d := range ds {
					d.end(b)
				}
			}
			sum, squares := 0.0, 0.0
			for _, d := range ds {
				n := float64(d.got) * float64(d.size)
				sum += n
				squares += n * n
			}
			if j := sum * sum / (squares * float64(len(ds))); j < 0.98 {
				t.Errorf("fairness %.3f", j)
			}
			for _, d := range ds {
				for i := range d.claims {
					d.claims[i].Cancel()
				}
			}
			if b.Used() != 0 || b.line.First() != nil {
				t.Errorf("%d bytes are not given back", b.Used())
			}
		})
	}
}

// TestReclaim: what a consumer took and its peer has not delivered in time is reclaimed once a claim of another party
// or for another peer waits, but not for a claim of its own party and peer.
func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		name  string
		other int  // party of the waiting claim
		peer  byte // last byte of its peer's address
		want  bool
	}{{"another party waits", 1, 1, true}, {"another peer", 0, 2, true}, {"the peer's own", 0, 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := &Shard{cq: newFakeCQ()}
			s.budget.open(s, 100)
			var rs [2]recorder
			var claims [2]Claim
			var parties [2]Allowance
			for i := range rs {
				rs[i].retry = func() {}
				s.Attach(&rs[i].slot, &rs[i])
				parties[i].Open(&s.budget)
			}
			claims[0].Peer, claims[1].Peer = netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.AddrFrom4([4]byte{192, 0, 2, c.peer})
			b, other := &s.budget, &parties[c.other]
			asked := int64(0)
			claims[0].Reclaim = func(b *Budget, before int64) {
				if parties[0].AwaitedBeside(&claims[0]) {
					asked = before
					b.Give(100)
				}
			}
			if parties[0].Take(&claims[0], 100, 100) != 100 {
				t.Fatal("nothing granted")
			}
			s.Lend(&claims[0])
			if other.Take(&claims[1], 50, 50) != 0 {
				t.Fatal("granted beyond the limit")
			}
			if other.Wait(&claims[1], &rs[1].slot, 50, 50); !b.urging.Running() {
				t.Fatal("nobody is going to ask")
			}
			s.now = int64(time.Second)
			b.reclaim()
			if got := asked == int64(time.Second-deliveryTimeout); got != c.want {
				t.Errorf("asked for what was taken before %d", asked)
			}
			if got := other.Take(&claims[1], 50, 50) == 50; got != c.want {
				t.Errorf("granted afterwards: %v", got)
			}
		})
	}
}

// TestCancelServesNext: claims behind one that is canceled are granted what is free at once, and not only when more is
// returned.
func TestCancelServesNext(t *testing.T) {
	r := newBudgetRig(t)
	r.grant(0, 60, 60, 60)
	r.grant(1, 80, 80, 0)
	r.grant(2, 40, 40, 0)
	r.claims[1].Cancel()
	if r.s.serveRetries(); r.retried[2] != 1 {
		t.Fatal("nobody told the next that there is room for it")
	}
	r.grant(2, 40, 40, 40)
	if r.b.Give(100); r.b.Used() != 0 || r.b.line.First() != nil {
		t.Errorf("%d bytes are not given back", r.b.Used())
	}
}
