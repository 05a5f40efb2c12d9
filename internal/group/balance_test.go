package group

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A load is the I/O of the groups of a cluster.
type load struct {
	*cluster
	heat  map[ID]uint64 // in addition to the load of each group
	rng   *rand.Rand
	moves int // allowed per period
}

// report makes each gateway report the I/O of its groups, which varies.
func (l *load) report(noise float64) {
	for _, g := range l.all {
		all := map[ID]uint64{}
		for _, id := range g.held.ids() {
			all[id] = uint64(float64(100+l.heat[id]) * (1 + noise*(2*l.rng.Float64()-1)))
		}
		g.step(Loads{Loads: all})
	}
}

// moved counts the moves so far.
func (l *load) moved() (n int) {
	for _, g := range l.all {
		for _, x := range g.log {
			if _, is := x.(Drain); is {
				n++
			}
		}
	}
	return n
}

// run reports for a time, and returns how many groups have moved.
func (l *load) run(d time.Duration, noise float64) int {
	l.t.Helper()
	before := l.moved()
	for range d / time.Second {
		l.report(noise)
		last := l.moved()
		l.cluster.run(time.Second)
		if n := l.moved() - last; n > l.moves {
			l.t.Errorf("%d moves in a second", n)
		}
	}
	return l.moved() - before
}

// hot returns the number of a gateway's groups with much I/O.
func (l *load) hot(g *gateway) (n int) {
	for id := range g.serving {
		if l.heat[id] > 0 {
			n++
		}
	}
	return n
}

// TestHotNeighbours: groups with much I/O are spread over the gateways, a few at a time, and then stay although their
// I/O varies.
func TestHotNeighbours(t *testing.T) {
	c := newCluster(t, fenced(12)...)
	a := c.start("a")
	c.wantSpread(time.Minute, 12)
	b := c.start("b")
	c.wantSpread(time.Minute, 6, 6)
	l := &load{c, map[ID]uint64{}, rand.New(rand.NewPCG(1, 1)), a.cfg.MaxMoves}
	for _, id := range a.held.ids()[:4] {
		l.heat[id] = 50_000
	}
	if n := l.run(time.Minute, 0.1); n > 12 || l.hot(a) != 2 || l.hot(b) != 2 {
		t.Errorf("%d hot groups at a, %d at b, after %d moves", l.hot(a), l.hot(b), n)
	}
	if n := l.run(90*time.Second, 0.2); n > 0 {
		t.Errorf("%d moves for I/O that varies by 20 %%", n)
	}
	a.step(Command{Token: 1, Kind: DrainGateway, Gateway: "a"})
	l.moves *= 4
	l.run(30*time.Second, 0.1)
	if len(a.serving) > 0 {
		t.Errorf("a gateway that is drained serves %d", len(a.serving))
	}
}

// TestJoinsMany: a gateway that joins gets its share of many groups without I/O at once.
func TestJoinsMany(t *testing.T) {
	c := newCluster(t, fenced(32)...)
	a := c.start("a")
	c.wantSpread(time.Minute, 32)
	b := c.start("b")
	c.until("b has its share", 15*time.Second, func() bool { return len(a.serving) <= 18 && len(a.serving)+len(b.serving) == 32 })
}

// TestJoinsEarly: a gateway joins before another one, started shortly before, has received the I/O of its groups. It
// gets groups like those with I/O: a few at a time.
func TestJoinsEarly(t *testing.T) {
	c := newCluster(t, fenced(32)...)
	a := c.start("a")
	c.wantSpread(time.Minute, 32)
	b := c.start("b")
	l := &load{c, map[ID]uint64{}, rand.New(rand.NewPCG(1, 1)), a.cfg.MaxMoves}
	last := 0
	for range 5 {
		c.run(time.Second)
		if n := l.moved(); n-last > l.moves {
			t.Errorf("%d moves in a second before I/O is reported", n-last)
		}
		last = l.moved()
	}
	l.run(40*time.Second, 0.1)
	if len(b.serving) < 12 {
		t.Errorf("b serves %d of 32", len(b.serving))
	}
}
