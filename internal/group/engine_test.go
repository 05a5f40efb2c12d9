package group

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// TestShare: the first gateway takes all groups, each new one gets its share, and a restarted one has its range of
// controller identifiers.
func TestShare(t *testing.T) {
	c := newCluster(t, fenced(9)...)
	c.start("a")
	if took := c.wantSpread(2*time.Second, 9); took > 100*time.Millisecond {
		t.Errorf("one gateway needs %v", took)
	}
	c.start("b")
	c.wantSpread(time.Minute, 5, 4)
	c.start("c")
	c.wantSpread(time.Minute, 3, 3, 3)
	c.run(time.Minute)
	if n := c.spread(); !reflect.DeepEqual(n, []int{3, 3, 3}) {
		t.Errorf("and then %v", n)
	}
	for i, g := range c.all {
		if s := g.own().value.Slot; s != i+1 {
			t.Errorf("%s has slot %d", g.name, s)
		}
	}
}

// TestTakeover: a killed gateway is fenced, and then its groups are served by others.
func TestTakeover(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	from := len(b.log)
	a.kill()
	if took := c.wantSpread(5*time.Second, 4); took > 3*time.Second {
		t.Errorf("takeover after %v", took)
	} else {
		t.Logf("takeover after %v", took)
	}
	if got, want := b.order(from), []string{"Fence", "Serve", "Serve"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !b.has(Fence{"a", "a.1", []string{"client.a.1"}}) {
		t.Error("fenced by other addresses")
	}
	if s := c.stored(fenceKey("a.1")); !strings.Contains(s, `"done":true`) {
		t.Errorf("fence record %s", s)
	}
	c.start("a")
	c.wantSpread(time.Minute, 2, 2)
}

// TestRestart: a gateway that is killed and restarted at once takes its groups back as a new incarnation, which fences
// the previous one.
func TestRestart(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	c.start("a").kill()
	a := c.start("a")
	c.wantSpread(5*time.Second, 2)
	a.kill()
	a = c.start("a")
	if took := c.wantSpread(5*time.Second, 2); took > 1500*time.Millisecond {
		t.Errorf("it takes %v", took)
	}
	if !a.has(Fence{"a", "a.2", []string{"client.a.2"}}) {
		t.Error("its incarnation before is not fenced")
	}
}

// TestFenceFails: no group is taken over before the fence.
func TestFenceFails(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	b.noFence = true
	a.kill()
	c.run(time.Minute)
	if n := c.spread(); n[0] != 1 || !b.alarmed(AlarmFence, "no monitor answers") {
		t.Errorf("%v without a fence, alarms %v", n, b.alarms)
	}
	b.noFence = false
	c.wantSpread(5*time.Second, 2)
}

// TestRefused: a gateway without addresses owns nothing that has to be fenced, and an unknown owner is not succeeded.
func TestRefused(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	c.outside(ownerKey(2), `{"version":1,"owner":"x","incarnation":"x.1","epoch":7,"phase":"owned","backend":"fenced"}`)
	c.outside(ownerKey(1), `{"version":1,"owner":"y","incarnation":"y.1","epoch":7,"phase":"owned","backend":"fenced"}`)
	c.outside(fenceKey("y.1"), `{"version":1,"name":"y","incarnation":"y.1"}`)
	a := c.start("a")
	c.run(10 * time.Second)
	if n := len(a.serving); n != 0 || !a.alarmed(AlarmRefused, "neither registered nor fenced") || !a.alarmed(AlarmRefused, "addresses") {
		t.Errorf("serves %d, %v", n, a.log)
	}
	b := newCluster(t, fenced(1)...)
	g := b.start("b")
	g.storage = nil
	b.run(time.Second)
	b.start("b2").kill()
	if g.step(Storage{Incarnation: "b.1"}); len(g.serving) > 0 && g.own().value.Storage == nil {
		t.Error("serves without addresses")
	}
}

// TestLateStorage: an update of the storage addresses of an ended incarnation is not applied to the next one. Otherwise
// others would fence that one by addresses that no client has any more.
func TestLateStorage(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	c.wantSpread(5*time.Second, 2)
	a.step(Storage{"a.1", []string{"client.a.1", "other.a.1"}})
	c.run(time.Second)
	if got := a.own().value.Storage; !reflect.DeepEqual(got, []string{"client.a.1", "other.a.1"}) {
		t.Errorf("another client has come: %v are registered", got)
	}
	a.step(Blocklisted{"a.1"})
	c.wantSpread(5*time.Second, 2)
	a.step(Storage{"a.1", []string{"client.a.1", "other.a.1"}})
	c.run(time.Second)
	if got := a.own().value; got.Incarnation != "a.2" || !reflect.DeepEqual(got.Storage, []string{"client.a.2"}) {
		t.Errorf("%s is registered with the clients %v", got.Incarnation, got.Storage)
	}
}

// TestFenced: a gateway that was fenced stops at once, and returns as another incarnation.
func TestFenced(t *testing.T) {
	for name, fence := range map[string]func(c *cluster, a *gateway){
		"by a peer":      func(c *cluster, _ *gateway) { c.all[1].step(Command{Token: 7, Kind: FailGateway, Gateway: "a"}) },
		"by the storage": func(c *cluster, a *gateway) { a.step(Blocklisted{"a.1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, fenced(4)...)
			a := c.start("a")
			c.start("b")
			c.wantSpread(time.Minute, 2, 2)
			fence(c, a)
			c.until("it stops", time.Second, func() bool { return len(a.serving) == 0 })
			c.wantSpread(time.Minute, 2, 2)
			if a.inc != "a.2" {
				t.Errorf("it is %s", a.inc)
			}
			if b := c.all[1]; name == "by a peer" && !b.has(Answer{7, nil}) {
				t.Error("no answer")
			}
		})
	}
}

// TestPause: a gateway that was stopped for a minute is fenced, judges no other gateway when it continues, and gets its
// share again.
func TestPause(t *testing.T) {
	c := newCluster(t, fenced(4)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 2, 2)
	a.dead = true // stands still
	c.run(time.Minute)
	if len(b.serving) != 4 {
		t.Fatalf("b serves %v", b.serving)
	}
	a.dead = false
	c.wantSpread(time.Minute, 2, 2)
	if a.inc != "a.2" || b.inc != "b.1" {
		t.Errorf("they are %s and %s", a.inc, b.inc)
	}
}

// TestOutage: owners of fenced groups continue while the store is down, and afterwards no gateway is judged silent.
func TestOutage(t *testing.T) {
	c := newCluster(t, append(fenced(2), Group{ID: 9, Backend: Lease})...)
	a, b := c.start("a"), c.start("b")
	c.until("all are served", time.Minute, func() bool { return len(a.serving)+len(b.serving) == 3 })
	c.run(20 * time.Second)
	c.db.SetDown(true)
	c.run(9*time.Second + 600*time.Millisecond)
	if n := len(a.serving) + len(b.serving); n != 2 || a.serving[9]+b.serving[9] != 0 {
		t.Errorf("%d groups are served, that with a lease in epoch %d", n, a.serving[9]+b.serving[9])
	}
	c.run(10 * time.Minute)
	c.db.SetDown(false)
	c.until("the lease goes on", 5*time.Second, func() bool { return a.serving[9]+b.serving[9] == 1 })
	c.run(20 * time.Second)
	if a.inc != "a.1" || b.inc != "b.1" {
		t.Errorf("they are %s and %s", a.inc, b.inc)
	}
}

// TestLease: the new owner waits for the whole term, and reports that there was no fence.
func TestLease(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: Lease, Preferred: "a"})
	a := c.start("a")
	b := c.start("b")
	c.wantSpread(time.Second, 1, 0)
	c.run(10 * time.Second)
	c.db.SetLink(a.client, simulated.Cut())
	begun, stopped := c.clock, time.Duration(0)
	c.until("b serves", 20*time.Second, func() bool {
		if stopped == 0 && len(a.serving) == 0 {
			stopped = c.clock - begun
		}
		return len(b.serving) == 1
	})
	if took := c.clock - begun; took < 9500*time.Millisecond || took > 11*time.Second || stopped < 8*time.Second || stopped > 9*time.Second {
		t.Errorf("stopped after %v, taken over after %v", stopped, took)
	}
	if !b.alarmed(AlarmUnfenced, "without a fence") {
		t.Error("nobody is told")
	}
}

// TestOtherBackend: a group whose backend has changed is owned in a new epoch, and only then served with the new
// backend. An owner that cannot be fenced stops by its own clock, and its successor waits for that.
func TestOtherBackend(t *testing.T) {
	for _, to := range []Backend{Lease, Fenced} {
		from := stricter(Fenced, Lease)
		if to == Fenced {
			from = Lease
		}
		c := newCluster(t, Group{ID: 1, Backend: from, Preferred: "a"})
		a, b := c.start("a"), c.start("b")
		c.wantSpread(5*time.Second, 1, 0)
		c.config = []Group{{ID: 1, Backend: to, Preferred: "a"}}
		for _, g := range c.all {
			g.step(Configure{c.config})
		}
		c.until("it is served as what it is", time.Second, func() bool { return a.has(Serve{1, 2, to}) && a.serving[1] == 2 })
		if s := c.stored(ownerKey(1)); !strings.Contains(s, fmt.Sprintf(`"backend":"%s"`, to)) {
			t.Errorf("from %s to %s: %s", from, to, s)
		}
		c.run(time.Second)
		c.db.SetLink(a.client, simulated.Cut())
		c.run(9 * time.Second)
		if served := a.serving[1] > 0; served != (to == Fenced) {
			t.Errorf("from %s to %s: without the store it is served: %v", from, to, served)
		}
		c.until("the other serves it", 5*time.Second, func() bool { return b.serving[1] > 0 })
	}
}

// TestBothBackends: an owner with a lease is not succeeded before the lease has ended, and one with storage that can be
// fenced not before it is fenced, even if the two owners have different configurations.
func TestBothBackends(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: Lease, Preferred: "a"})
	a, b := c.start("a"), c.start("b")
	c.wantSpread(5*time.Second, 1, 0)
	b.step(Configure{[]Group{{ID: 1, Backend: Fenced, Preferred: "a"}}})
	a.kill()
	if took := c.until("b serves it", 20*time.Second, func() bool { return b.serving[1] > 0 }); took < 9*time.Second {
		t.Errorf("after %v", took)
	}
	if !b.has(Fence{"a", "a.1", []string{"client.a.1"}}) {
		t.Error("it is not fenced")
	}
}

// TestLeaseForgotten: no fence record remains of a gateway whose storage cannot be fenced once another gateway has its
// groups. It detects nevertheless that it has ended.
func TestLeaseForgotten(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: Lease, Preferred: "a"})
	c.bare = true
	a := c.start("a")
	b := c.start("b")
	c.wantSpread(time.Second, 1, 0)
	c.run(10 * time.Second)
	a.db.SetLink(a.client, simulated.Cut())
	c.run(5 * time.Second)
	if c.stored(fencePrefix) == "" {
		t.Error("no fence record while the term of the lease is not over")
	}
	c.run(10 * time.Second)
	if s := c.stored(fencePrefix); len(b.serving) != 1 || s != "" {
		t.Errorf("b serves %v, fences %s", b.serving, s)
	}
	a.db.SetLink(a.client, simulated.Link{})
	c.run(20 * time.Second)
	if a.births != 2 || len(a.serving)+len(b.serving) != 1 || c.stored(fencePrefix) != "" {
		t.Errorf("%d incarnations, a serves %v, b %v, fences %s", a.births, a.serving, b.serving, c.stored(fencePrefix))
	}
}

// TestEndedUnseen: an incarnation that was registered and ended before it could read that starts again.
func TestEndedUnseen(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: Lease, Preferred: "b"})
	c.bare = true
	c.start("b")
	c.wantSpread(time.Second, 1)
	a := c.start("a")
	for c.stored(memberKey("a")) == "" {
		c.run(time.Millisecond)
	}
	if a.stage != joining {
		t.Fatalf("stage %v", a.stage)
	}
	a.db.SetLink(a.client, simulated.Cut())
	c.run(10 * time.Second)
	if s := c.stored(fencePrefix); s != "" {
		t.Errorf("fences %s", s)
	}
	a.db.SetLink(a.client, simulated.Link{})
	c.run(10 * time.Second)
	if a.births != 2 || a.stage != member {
		t.Errorf("%d incarnations, stage %v", a.births, a.stage)
	}
}

// TestNone: a group whose data only one gateway has does not move.
func TestNone(t *testing.T) {
	c := newCluster(t, Group{ID: 1, Backend: None, Preferred: "a"})
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Second, 1, 0)
	a.kill()
	c.run(time.Minute)
	if len(b.serving) > 0 {
		t.Error("it moved")
	}
	c.start("a")
	c.wantSpread(5*time.Second, 0, 1)
}

// TestTwoOfOneName: the second gateway of a name gets an alarm, and does not fence the first.
func TestTwoOfOneName(t *testing.T) {
	c := newCluster(t, fenced(1)...)
	a := c.start("a")
	c.wantSpread(time.Second, 1)
	second := c.start("a")
	c.run(time.Minute)
	if len(a.serving) != 1 || a.inc != "a.1" || !second.alarmed(AlarmNameInUse, "--gateway") {
		t.Errorf("the first serves %v as %s; %v", a.serving, a.inc, second.log)
	}
}

// TestSlots: there are as many gateways as ranges of controller identifiers.
func TestSlots(t *testing.T) {
	c := newCluster(t)
	two := func(cfg *Config) { cfg.Slots = 2 }
	c.start("a", two)
	c.run(100 * time.Millisecond)
	b := c.start("b", two)
	c.run(100 * time.Millisecond)
	third := c.start("c", two)
	c.run(time.Second)
	if third.stage != joining || !third.alarmed(AlarmNoSlot, "all 2 ranges") {
		t.Errorf("the third: %v", third.log)
	}
	b.kill()
	c.run(5 * time.Second)
	c.all[0].step(Command{Token: 1, Kind: RemoveGateway, Gateway: "b"})
	c.run(2 * time.Second)
	if third.stage != member || third.own().value.Slot != 2 {
		t.Errorf("after b was removed: %v", third.log)
	}
	for slot := 1; slot <= 32; slot++ {
		first, last := ControllerIDs(slot, 0)
		if want := uint16(slot-1)*2047 + 1; first != want || last != want+2046 {
			t.Errorf("slot %d: %d to %d", slot, first, last)
		}
	}
}

// TestRemoveAfterManyDeaths: no fence of a gateway that was often restarted remains forever: once the gateway is
// forgotten, none could end it.
func TestRemoveAfterManyDeaths(t *testing.T) {
	for _, deaths := range []int{47, 300} { // with 47 one operation more than fits into a transaction
		removeAfter(t, deaths)
	}
}

func removeAfter(t *testing.T, deaths int) {
	c := newCluster(t, fenced(1)...)
	for i := range deaths {
		c.outside(fenceKey(Incarnation(fmt.Sprintf("b.%03d", i))), fmt.Sprintf(`{"version":1,"name":"b","incarnation":"b.%03d","storage":["client.%d"],"done":true}`, i, i))
	}
	c.outside(memberKey("b"), `{"version":1,"name":"b","incarnation":"b.000","slot":9,"ended":true}`)
	c.outside(slotKey(9), `{"version":1,"name":"b"}`)
	c.outside(beatKey("b"), `{"version":1,"incarnation":"b.000","count":1}`)
	c.outside(orderKey("b"), `{"version":1}`)
	a := c.start("a")
	c.wantSpread(5*time.Second, 1)
	a.step(Command{Token: 1, Kind: RemoveGateway, Gateway: "b"})
	c.until("the order is carried out", time.Minute, func() bool { return a.has(Answer{1, nil}) })
	c.until("no fence is left", time.Minute, func() bool { return len(a.view.fences) == 0 })
	if a.view.member("b") != nil {
		t.Errorf("after %d deaths it is not forgotten", deaths)
	}
}

// TestAlarmOnceAMinute: an error whose text changes each time is reported once a minute, and not accumulated.
func TestAlarmOnceAMinute(t *testing.T) {
	c := newCluster(t, fenced(1)...)
	a := c.start("a")
	c.wantSpread(time.Second, 1)
	a.out = nil
	for n := range 200 {
		a.alarm(Alarm{Kind: AlarmServe, Gateway: "a", Group: 1, Text: strings.Repeat("x", n)})
	}
	if len(a.alarms) != 1 || len(a.out) != 1 {
		t.Errorf("%d are kept, %d told", len(a.alarms), len(a.out))
	}
}

// TestCancel: a command whose sender no longer waits, because the store is down, is not executed when the store
// returns.
func TestCancel(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	c.db.SetDown(true)
	c.run(3 * time.Second)
	a.step(Command{Token: 9, Kind: FailGateway, Gateway: "b"})
	c.run(10 * time.Second)
	a.step(Cancel{9})
	c.run(time.Minute)
	c.db.SetDown(false)
	c.run(20 * time.Second)
	if b.inc != "b.1" || a.has(Answer{9, nil}) {
		t.Errorf("b is %s", b.inc)
	}
}
