package group

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestTook: the caller learns why a group moved here, and how long that took.
func TestTook(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a := c.start("a")
	c.wantSpread(time.Minute, 4)
	want := func(g *gateway, from int, reason Reason, n int, least, most time.Duration) {
		t.Helper()
		for _, x := range g.log[from:] {
			if x, is := x.(Took); is && x.Reason == reason && x.Duration >= least && x.Duration <= most && x.Epoch > 0 {
				n--
			}
		}
		if n != 0 {
			t.Errorf("%d too few for %s: %v", n, reason, g.log[from:])
		}
	}
	want(a, 0, ReasonFree, 4, 0, time.Second)
	b := c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	want(b, 0, ReasonBalance, 2, 0, 3*time.Second)
	from := len(b.log)
	a.step(Command{Token: 1, Kind: DrainGateway, Gateway: "a"})
	c.wantSpread(time.Minute, 0, 4)
	want(b, from, ReasonDrain, 2, 0, 3*time.Second)
	a.step(Command{Token: 2, Kind: UndrainGateway, Gateway: "a"})
	c.wantSpread(time.Minute, 2, 2)
	from = len(b.log)
	id := a.held.ids()[0]
	b.step(Command{Token: 3, Kind: MoveGroup, Gateway: "b", Group: id})
	c.until("it has moved", time.Second, func() bool { return b.serving[id] > 0 })
	want(b, from, ReasonOperator, 1, 0, time.Second)
	from = len(b.log)
	n := len(a.serving)
	a.kill()
	c.until("b has all", 5*time.Second, func() bool { return len(b.serving) == 4 })
	want(b, from, ReasonDead, n, a.cfg.Term, 2*a.cfg.Term)
}

// TestListing: within a second of a join, a leave and a loss all gateways know of it, with the same increasing number.
func TestListing(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	last := a.Status().Listing
	want := func(what string, listed int, limit time.Duration) {
		t.Helper()
		took := c.until(what, limit, func() bool {
			n := 0
			for _, x := range a.Status().Gateways {
				if !x.Member.Ended {
					n++
				}
			}
			return n == listed && a.Status().Listing > last && a.Status().Listing == b.Status().Listing
		})
		t.Logf("%s: after %v", what, took)
		last = a.Status().Listing
	}
	d := c.start("d")
	want("d has joined", 3, time.Second)
	d.step(Leave{})
	want("d has left", 2, time.Second)
	d = c.start("d")
	want("d is back", 3, time.Second)
	d.kill()
	want("d is lost", 2, a.cfg.Term+time.Second)
	c.run(time.Minute)
	if now := a.Status().Listing; now != last {
		t.Errorf("%d, after %d, though nobody came or left", now, last)
	}
}

// TestTurnoverStale: a read from before this gateway took a group does not make it forget the reason.
func TestTurnoverStale(t *testing.T) {
	owned := func(epoch uint64, by Incarnation) *view {
		return &view{owners: table[Owner]{{Entry: state.Entry{Key: ownerKey(1)}, value: Owner{Owner: "x", Incarnation: by, Epoch: epoch, Phase: Owned}}}}
	}
	for name, test := range map[string]struct {
		has  turnover
		read *view
		want Reason
	}{
		"nobody had it":               {turnover{reason: ReasonFree, taken: true}, &view{}, ReasonFree},
		"its owner has ended":         {turnover{reason: ReasonDead, taken: true, epoch: 3}, owned(3, "other"), ReasonDead},
		"it is this one's":            {turnover{reason: ReasonDead, taken: true, epoch: 3}, owned(4, "own"), ReasonDead},
		"another was faster":          {turnover{reason: ReasonDead, taken: true, epoch: 3}, owned(4, "other"), ReasonOther},
		"it was another's before":     {turnover{reason: ReasonFree, taken: true}, owned(1, "other"), ReasonOther},
		"a move that was taken back":  {turnover{reason: ReasonDrain}, owned(3, "other"), ReasonOther},
		"a move that was carried out": {turnover{reason: ReasonDrain}, owned(4, "own"), ReasonDrain},
	} {
		all := turnovers{1: test.has}
		all.read(test.read, "own", 0)
		if got := all.of(1, "", 0).reason; got != test.want {
			t.Errorf("%s: %s instead of %s", name, got, test.want)
		}
	}
}
