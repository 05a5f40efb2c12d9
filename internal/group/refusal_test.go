package group

import (
	"errors"
	"testing"
	"time"
)

// TestReadOnlyStore: that the store answers, and executes nothing, is reported within ten seconds, with its answer, by
// gateways that are registered and by one that is not yet. Nobody is called silent for that. A store that does not answer
// is another matter.
func TestReadOnlyStore(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a, b := c.start("a"), c.start("b")
	c.wantSpread(time.Minute, 1, 1)
	c.run(10 * time.Second)
	c.db.SetDown(true)
	c.run(time.Minute)
	full := errors.New("database space exceeded")
	a.refuses, b.refuses = full, full
	c.db.SetDown(false)
	c.run(2 * time.Second)
	if a.alarmed(AlarmReadOnly, "") {
		t.Error("a store that did not answer is called read-only")
	}
	joins := c.start("c")
	joins.refuses = full
	c.run(8 * time.Second)
	for _, g := range c.all {
		if !g.alarmed(AlarmReadOnly, full.Error()) {
			t.Errorf("%s: alarms %v", g.name, g.alarms)
		}
		for _, x := range g.Status().Gateways {
			if own := x.Member.Name == g.name; x.Unknown == own || x.Alive != own {
				t.Errorf("%s sees %s: alive %v, unknown %v", g.name, x.Member.Name, x.Alive, x.Unknown)
			}
		}
	}
	a.refuses, b.refuses, joins.refuses = nil, nil, nil
	c.wantSpread(time.Minute, 1, 1, 0)
	b.kill()
	c.run(1800 * time.Millisecond)
	c.until("b is silent, or has ended", 5*time.Second, func() bool {
		x := a.Status().Gateways[1]
		return !x.Alive && !x.Unknown
	})
}
