package group

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestManyFences: a new planner repeats the fences of a gateway that has crashed a hundred times a few at a time, all of
// them before the storage forgets them, and reports that gateway. The fence that a takeover needs does not wait for these.
func TestManyFences(t *testing.T) {
	const crashes = 100
	c := newCluster(t, fenced(4)...)
	for n := range crashes {
		inc := fmt.Sprintf("x.%d", n)
		c.outside(fenceKey(Incarnation(inc)), fmt.Sprintf(`{"version":1,"name":"x","incarnation":%q,"storage":["client.%[1]s"],"done":true}`, inc))
	}
	a := c.start("a")
	c.until("it fences", time.Minute, func() bool { return a.fenced > 0 })
	z := c.start("z")
	c.until("some are fenced", time.Second, func() bool { return len(a.fences) > 20 })
	c.run(10 * time.Second)
	if a.fenced > mostRenewals {
		t.Errorf("%d fences at a time", a.fenced)
	}
	for n := range crashes {
		if inc := Incarnation(fmt.Sprintf("x.%d", n)); !a.fences.hold(inc, a.now, a.cfg.FenceRenew) {
			t.Fatalf("%s is not fenced any more", inc)
		}
	}
	if !a.alarmed(AlarmFences, "100 times") || z.alarmed(AlarmFences, "") {
		t.Error("the gateway that crashes is not reported, or by each")
	}
	c.wantSpread(time.Minute, 2, 2)
	z.kill()
	a.step(Blocklisted{a.inc}) // a new incarnation has to fence all again
	from := len(a.log)
	c.wantSpread(5*time.Second, 4)
	its := slices.IndexFunc(a.log[from:], func(x Action) bool { f, ok := x.(Fence); return ok && f.Name == "z" })
	before := 0
	for _, x := range a.log[from:][:max(its, 0)] {
		if _, ok := x.(Fence); ok {
			before++
		}
	}
	if its < 0 || before == crashes {
		t.Errorf("z was fenced after %d others", before)
	}
}
