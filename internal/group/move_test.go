package group

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// TestLeave: a gateway that is stopped first gives back its groups, and is not fenced.
func TestLeave(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	from := len(a.log)
	a.step(Leave{})
	took := c.until("it has left", time.Second, func() bool { return a.has(Left{}) })
	t.Logf("it has left after %v", took)
	if got, want := a.order(from), []string{"Drain", "Drain", "Left"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.until("b has all", time.Second, func() bool { return len(b.serving) == 4 })
	c.run(time.Minute)
	if c.stored(fencePrefix) != "" || !strings.Contains(c.stored(memberKey("a")), `"ended":true`) {
		t.Errorf("fences %s, registration %s", c.stored(fencePrefix), c.stored(memberKey("a")))
	}
	b.step(Leave{})
	c.until("the last one has left", time.Second, func() bool { return b.has(Left{}) })
	if s := c.stored(ownerKey(1)); !strings.Contains(s, `"free"`) {
		t.Errorf("group 1 is %s", s)
	}
	c.start("c")
	c.until("c has all", time.Second, func() bool { return len(c.all[2].serving) == 4 })
}

// TestLeaveRace: a leaving gateway that is given a group at that moment gives it away before it ends, so that it need
// not be fenced.
func TestLeaveRace(t *testing.T) {
	for late := time.Duration(0); late < 300*time.Millisecond; late += time.Millisecond {
		c := newCluster(t, Group{ID: 1, Backend: Lease, Preferred: "a"})
		a, b := c.start("a"), c.start("b")
		c.wantSpread(time.Minute, 1, 0)
		c.run(time.Second)
		a.step(Command{Token: 1, Kind: MoveGroup, Group: 1, Gateway: "b"})
		c.run(late)
		b.step(Leave{})
		c.until("b has left", 2*time.Second, func() bool { return b.has(Left{}) })
		b.kill()
		c.until("a has it", 2*time.Second, func() bool { return len(a.serving) == 1 })
		if f := c.stored(fencePrefix); f != "" {
			t.Fatalf("left %v after the move: fenced: %s", late, f)
		}
	}
}

// TestLeaveCannot: a gateway that cannot give back its groups ends after its timeout.
func TestLeaveCannot(t *testing.T) {
	c := newCluster(t, fenced(1)...)
	a := c.start("a")
	c.wantSpread(time.Second, 1)
	c.db.SetLink(a.client, simulated.Cut())
	a.step(Leave{})
	c.run(29 * time.Second)
	if a.has(Left{}) {
		t.Error("too early")
	}
	c.run(2 * time.Second)
	if !a.has(Left{}) || a.has(Rejoin{}) {
		t.Errorf("%v", a.log)
	}
	e, _ := New(Config{Name: "x"})
	if acts := e.Step(1, Leave{}); !reflect.DeepEqual(acts, []Action{Left{}}) {
		t.Errorf("one that has not begun: %v", acts)
	}
}

// TestDrain: a drained gateway has no groups, even after a restart, until it is undrained.
func TestDrain(t *testing.T) {
	c := newCluster(t, fenced(6)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 3, 3)
	b.step(Command{Token: 1, Kind: DrainGateway, Gateway: "a"})
	took := c.wantSpread(time.Second, 0, 6)
	t.Logf("drained after %v", took)
	if !b.has(Answer{1, nil}) {
		t.Error("no answer")
	}
	a.kill()
	c.start("a")
	c.run(time.Minute)
	if n := c.spread(); n[1] != 0 {
		t.Errorf("after its restart %v", n)
	}
	b.step(Command{Token: 2, Kind: UndrainGateway, Gateway: "a"})
	c.wantSpread(time.Minute, 3, 3)
}

// TestMove: a group moves within milliseconds, in the order drain, owner, serve.
func TestMove(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	var id ID
	for id = range a.serving {
	}
	epoch := a.serving[id]
	a.step(Command{Token: 3, Kind: MoveGroup, Group: id, Gateway: "b"})
	took := c.until("it has moved", time.Second, func() bool { return b.serving[id] == epoch+1 })
	if t.Logf("moved after %v", took); len(a.serving) != 0 || !a.has(Answer{3, nil}) {
		t.Errorf("a serves %v, %v", a.serving, a.log)
	}
}

// TestMoveErrors: impossible moves are rejected with an error.
func TestMoveErrors(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: None, Preferred: "a"}, Group{ID: 2, Backend: None, Preferred: "x"})
	a := c.start("a")
	c.start("b")
	d := c.start("d")
	c.run(time.Second)
	c.config = append(c.config, Group{ID: 4, Backend: Lease, Preferred: "d"}, Group{ID: 5, Backend: Lease, Preferred: "a"})
	for _, g := range c.all {
		g.step(Configure{c.config})
	}
	c.run(time.Second)
	d.stuck = true
	d.step(Leave{})
	c.run(time.Second)
	for _, r := range []struct {
		command Command
		want    string
	}{
		{Command{Kind: MoveGroup, Group: 5, Gateway: "d"}, "is leaving"},
		{Command{Kind: MoveGroup, Group: 1, Gateway: "b"}, `fencing "none"`},
		{Command{Kind: MoveGroup, Group: 1, Gateway: "c"}, "no gateway c"},
		{Command{Kind: MoveGroup, Group: 2, Gateway: "b"}, "no owner"},
		{Command{Kind: MoveGroup, Group: 3, Gateway: "b"}, "no ANA group 3"},
		{Command{Kind: MoveGroup, Group: 1, Gateway: "a"}, ""},
		{Command{Kind: FailGateway, Gateway: "a"}, "is this one"},
		{Command{Kind: RemoveGateway, Gateway: "b"}, "alive"},
		{Command{Kind: RemoveGateway, Gateway: "z"}, "no gateway z"},
		{Command{Kind: 99, Gateway: "a"}, "unknown"},
	} {
		from := len(a.log)
		a.step(r.command)
		c.run(time.Second)
		i := slices.IndexFunc(a.log[from:], func(x Action) bool { _, ok := x.(Answer); return ok })
		if i < 0 {
			t.Fatalf("%+v: no answer", r.command)
		}
		if err := a.log[from+i].(Answer).Err; err == nil != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
			t.Errorf("%+v: %v, want %q", r.command, err, r.want)
		}
	}
}

// TestDrainHangs: a move for balance that hangs is given up. If the group must move, the gateway ends its incarnation
// and is fenced.
func TestDrainHangs(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	c.wantSpread(time.Second, 2)
	a.stuck = true
	b := c.start("b")
	c.run(90 * time.Second)
	drains := 0 // one of each group
	for _, x := range a.log {
		if _, ok := x.(Drain); ok {
			drains++
		}
	}
	if drains != 2 || len(a.serving) != 2 || a.inc != "a.1" || !a.alarmed(AlarmDrain, "did not end") {
		t.Errorf("%d drains, serves %v, %v", drains, a.serving, a.log)
	}
	a.step(Command{Kind: DrainGateway, Gateway: "a"})
	c.until("b has all", 15*time.Second, func() bool { return len(b.serving) == 2 })
	if a.inc != "a.2" || !b.has(Fence{"a", "a.1", []string{"client.a.1"}}) {
		t.Errorf("a is %s; b: %v", a.inc, b.log)
	}
}

// TestBroken: a group that cannot be served on one gateway is tried on another, and does not prevent the service of
// other groups.
func TestBroken(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	a.broken = true
	c.run(5 * time.Second)
	b := c.start("b")
	c.until("b has both", 30*time.Second, func() bool { return len(b.serving) == 2 })
	if !a.alarmed(AlarmServe, "no such image") {
		t.Error("nobody is told")
	}
}

// TestStuck: a gateway whose commands do not end loses its groups, unless that is so on all gateways.
func TestStuck(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	a.step(Health{Stuck: true})
	b.step(Health{Stuck: true})
	c.run(time.Minute)
	if n := c.spread(); !reflect.DeepEqual(n, []int{2, 2}) {
		t.Errorf("all are stuck: %v", n)
	}
	b.step(Health{})
	a.stuck = true
	c.until("a ends its incarnation", 30*time.Second, func() bool { return a.inc == "a.2" })
	c.wantSpread(30*time.Second, 2, 2) // with new clients of the storage
}

// TestPreferred: a group returns to the preferred gateway, which keeps it.
func TestPreferred(t *testing.T) {
	c := newCluster(t, Group{1, Fenced, "b"}, Group{2, Fenced, "b"}, Group{3, Fenced, "b"}, Group{4, Fenced, ""})
	c.start("a")
	c.wantSpread(time.Second, 4)
	c.start("b")
	c.wantSpread(time.Minute, 1, 3)
	c.run(time.Minute)
	if n := c.spread(); !reflect.DeepEqual(n, []int{1, 3}) {
		t.Errorf("then %v", n)
	}
}

// TestLoad: a group with as much I/O as all others together gets a gateway for itself.
func TestLoad(t *testing.T) {
	c := newCluster(t, fenced(5)...)
	loads := map[ID]uint64{1: 4000, 2: 1000, 3: 1000, 4: 1000, 5: 1000}
	a, b := c.start("a"), c.start("b")
	publish := func() {
		for _, g := range []*gateway{a, b} {
			l := map[ID]uint64{}
			for id := range g.serving {
				l[id] = loads[id]
			}
			g.step(Loads{Loads: l})
		}
		c.run(500 * time.Millisecond)
	}
	for range 60 {
		publish()
	}
	if x, y := len(a.serving), len(b.serving); x*y != 4 {
		t.Errorf("a serves %v, b %v", a.serving, b.serving)
	}
	moves := len(a.log) + len(b.log)
	loads[2], loads[3] = 1080, 930
	for range 60 {
		publish()
	}
	if n := len(a.log) + len(b.log); n != moves {
		t.Error("a little more I/O, and groups move")
	}
}

// TestUnreadable: values of a later version are not changed.
func TestUnreadable(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	c.outside(ownerKey(2), `{"version":2,"owner":"x"}`)
	a := c.start("a")
	c.run(5 * time.Second)
	if len(a.serving) != 1 || !a.alarmed(AlarmUnreadable, "upgrade") {
		t.Errorf("serves %v, %v", a.serving, a.log)
	}
}

// TestUnreadableRegistration: a gateway whose own registration cannot be read continues to serve its groups, and does
// everything again when it can be read.
func TestUnreadableRegistration(t *testing.T) {
	for _, value := range []string{`{"version":2,"name":"a","incarnation":"a.1"}`, `{"version":1,"incarnation":"a.1","addresses":"a"}`} {
		c := newCluster(t, fenced(1)...)
		a := c.start("a")
		c.run(5 * time.Second)
		before := c.stored(memberKey("a"))
		c.outside(memberKey("a"), value)
		c.run(5 * time.Second)
		if len(a.serving) != 1 || !a.alarmed(AlarmUnreadable, memberKey("a")) {
			t.Errorf("%s: serves %v, %v", value, a.serving, a.log)
		}
		c.outside(memberKey("a"), before)
		c.start("b")
		c.run(10 * time.Second)
		a.step(Leave{})
		c.wantSpread(10*time.Second, 0, 1)
	}
}

// TestGone: fences are renewed until nothing is left of the incarnation, and then removed.
func TestGone(t *testing.T) {
	c := newCluster(t, fenced(1)...)
	a := c.start("a")
	b := c.start("b")
	c.wantSpread(10*time.Second, 1, 0)
	a.kill()
	c.run(21 * time.Minute)
	n := 0
	for _, x := range b.log {
		if _, ok := x.(Fence); ok {
			n++
		}
	}
	if n != 3 {
		t.Errorf("fenced %d times in 21 minutes, want 3", n)
	}
	b.step(Gone{"a.1"})
	c.run(10 * time.Second)
	if s := c.stored(fencePrefix); s != "" {
		t.Errorf("the fence record is still there: %s", s)
	}
	b.step(Blocklisted{"b.1"})
	c.run(10 * time.Second)
	if s := c.stored(fencePrefix); s != "" {
		t.Errorf("that of the own process is still there: %s", s)
	}
}

// TestStatus: what an administrator sees, and what a change of a reservation compares.
func TestStatus(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	c.all[1].kill()
	c.run(3 * time.Second)
	s := a.Status()
	if len(s.Gateways) != 2 || !s.Gateways[0].Alive || s.Gateways[1].Alive || len(s.Groups) != 2 || len(s.Fences) != 1 ||
		!s.Groups[0].Served || s.Groups[0].Owner.Owner != "a" || s.Groups[0].Moving {
		t.Errorf("%+v", s)
	}
	h, ok := a.Holds()[1]
	if !ok || h.Epoch != a.serving[1] || len(h.Guard) != 1 || h.Guard[0].Key != ownerKey(1) || h.Session != "a.1" {
		t.Error(h, ok)
	}
	if all := a.Holds(); len(all) != len(a.serving) {
		t.Error(all)
	}
}

// TestStoreWentBack: a store that was restored from a copy is not trusted.
func TestStoreWentBack(t *testing.T) {
	c := newCluster(t, fenced(1)...)
	a := c.start("a")
	c.wantSpread(time.Second, 1)
	a.view.revision += 1000
	c.run(5 * time.Second)
	if len(a.serving) != 1 || !a.alarmed(AlarmStore, "restored") {
		t.Errorf("serves %v, %v", a.serving, a.log)
	}
}

// TestStoreRestored: after the store is restored from a copy, no gateway serves a group that another gateway may still
// serve because of lost entries: neither while that one has not read the store, nor when the store has as many
// revisions as before. Then all is served.
func TestStoreRestored(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, others := range []int{0, 100000} { // transactions of other users of the store
			t.Run(fmt.Sprint(restart, others), func(t *testing.T) {
				c := newCluster(t, Group{ID: 33, Backend: Lease}, Group{ID: 34, Backend: Lease}, Group{ID: 35, Backend: Lease}, Group{ID: 36, Backend: Lease})
				a, b := c.start("a"), c.start("b")
				c.wantSpread(20*time.Second, 2, 2)
				from := c.db.Copy()
				if restart {
					b.kill()
					c.until("a has all", 30*time.Second, func() bool { return len(a.serving) == 4 })
					b = c.start("b")
				} else {
					a.step(Command{Kind: DrainGateway, Gateway: "a"})
					c.until("b has all", 30*time.Second, func() bool { return len(b.serving) == 4 })
				}
				c.run(5 * time.Second)
				c.db.SetDown(true)
				c.run(time.Second)
				c.db.Restore(from)
				for range others {
					c.db.Pass()
				}
				c.db.SetDown(false)
				c.run(10 * time.Second)
				for _, g := range []*gateway{a, b} {
					if !g.alarmed(AlarmStore, "restored") {
						t.Errorf("%s does not say so: %v", g.name, g.log)
					}
				}
				c.until("all is served", 60*time.Second, func() bool { return len(a.serving)+len(b.serving) == 4 })
				c.run(10 * time.Second)
			})
		}
	}
}

// TestGroupRemoved: a group that is no longer configured is given back, even after its owner was killed. It does not
// prevent gateways from leaving or from being removed.
func TestGroupRemoved(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	c.config = c.config[:1]
	from := len(a.log)
	for _, g := range c.all {
		g.step(Configure{c.config})
	}
	c.until("one is left", time.Second, func() bool { return len(a.serving)+len(b.serving) == 1 })
	c.run(100 * time.Millisecond)
	if got := a.order(from); slices.Contains(got, "Rejoin") || slices.Contains(got, "Fence") {
		t.Errorf("%v", got)
	}
	for id := ID(2); id <= 4; id++ {
		if s := c.stored(ownerKey(id)); !strings.Contains(s, `"free"`) {
			t.Errorf("group %d is %s", id, s)
		}
	}
	b.kill()
	c.run(5 * time.Second)
	a.kill()
	c.config = nil
	d := c.start("d")
	c.run(10 * time.Second)
	if s := c.stored(ownerKey(1)); !strings.Contains(s, `"free"`) {
		t.Errorf("group 1 is %s", s)
	}
	d.step(Command{Token: 5, Kind: RemoveGateway, Gateway: "a"})
	c.run(time.Second)
	d.step(Leave{})
	c.until("it leaves", time.Second, func() bool { return d.has(Left{}) })
	if !d.has(Answer{5, nil}) {
		t.Errorf("a is not removed: %v", d.log)
	}
}

// TestBehind: a gateway without the group's configuration gets no group that others can serve, and keeps what it
// serves.
func TestBehind(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	b.step(Behind{Behind: true, Starting: true})
	c.run(time.Second)
	c.config = fenced(6)
	a.step(Configure{c.config})
	c.wantSpread(2*time.Second, 5, 1)
	a.kill()
	c.run(5 * time.Second)
	if len(b.serving) != 2 {
		t.Errorf("it serves %v of the two that it knows", b.serving)
	}
	b.step(Configure{c.config})
	b.step(Behind{})
	c.wantSpread(2*time.Second, 6)
}

// TestTakeMany: a gateway that takes over so many groups that it needs longer than DrainTimeout for all keeps those
// that it has not reached yet.
func TestTakeMany(t *testing.T) {
	c := newCluster(t, fenced(60)...)
	a, b, dead := c.start("a"), c.start("b"), c.start("c")
	c.wantSpread(time.Minute, 20, 20, 20)
	a.slow, b.slow = 1500*time.Millisecond, 1500*time.Millisecond
	epochs := map[ID]uint64{}
	for id, epoch := range dead.serving {
		epochs[id] = epoch
	}
	dead.kill()
	took := c.wantSpread(25*time.Second, 30, 30)
	t.Logf("all are served after %v", took)
	for id, before := range epochs {
		if now := max(a.serving[id], b.serving[id]); now != before+1 {
			t.Errorf("group %d has epoch %d, and had %d", id, now, before)
		}
	}
}

// TestOpenAfterDrain: a group whose drain has not ended, and that cannot be served again, is not given to another
// gateway before its commands in progress have ended.
func TestOpenAfterDrain(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	var id ID
	for id = range a.serving {
	}
	c.run(20 * time.Second)
	a.stuck, a.broken = true, true
	c.outside(moveKey(id), `{"version":1,"to":"b"}`)
	c.run(45 * time.Second)
	if b.serving[id] != 0 || !a.alarmed(AlarmServe, "no such image") {
		t.Errorf("b serves %v: %v", b.serving, a.log)
	}
	a.stuck = false
	c.until("b serves it", 30*time.Second, func() bool { return b.serving[id] != 0 })
}
