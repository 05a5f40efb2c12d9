package storage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := func() time.Duration { return time.Hour + time.Since(began) }
		var none *Lease
		l := NewLease(time.Hour+time.Second, clock, []capsule.ANAGroup{2, 0, ana.MaxGroups + 7})
		time.Sleep(time.Second)
		if none.Over(2) || l.Over(2) || l.Over(1) {
			t.Error("it is over before its end")
		}
		time.Sleep(time.Nanosecond)
		if none.Over(2) || !l.Over(2) || l.Over(1) {
			t.Error("after its end it is over for its group, and for no other")
		}
	})
}

// TestLeaseSlept: a lease ends while the machine sleeps, in which the monotonic clock stands still, also as it is made.
func TestLeaseSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const term = 9 * time.Second
		began, slept := time.Now(), time.Duration(0)
		clock := func() time.Duration { return time.Since(began) + slept }
		l := NewLease(term, clock, []capsule.ANAGroup{2})
		for _, c := range []struct {
			slept, set time.Duration // the machine, and the wall clock beside that
			over       bool
		}{
			{0, 0, false}, {8 * time.Second, 0, false}, {10 * time.Second, 0, true}, {time.Minute, -20 * time.Second, true},
			{0, time.Hour, false}, {0, -time.Hour, false},
		} {
			slept, l.wall = c.slept, began.Round(0).Add(-c.slept-c.set)
			if l.Over(2) != c.over {
				t.Errorf("the machine has slept %v, and the clock was set by %v: over is %t", c.slept, c.set, !c.over)
			}
		}
		slept = time.Minute
		l = NewLease(term, clock, []capsule.ANAGroup{2}) // of before the machine slept
		time.Sleep(time.Nanosecond)
		if !l.Over(2) {
			t.Error("what has ended as it is made is not over")
		}
	})
}
