package gateway

import (
	"maps"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// TestLoads: loads are rates, smoothed, of groups that were here for a whole interval.
func TestLoads(t *testing.T) {
	l, at := new(loads), time.Unix(1000, 0)
	units := map[group.ID]uint64{1: 5000, 2: 0}
	step := func(perSecond map[group.ID]uint64) {
		at = at.Add(loadEvery)
		next := maps.Clone(units)
		for id, n := range perSecond {
			next[id] += n * uint64(loadEvery/time.Second)
		}
		units = next
		l.add(at, maps.Clone(units))
	}
	step(nil)
	if now := l.published(); len(now) != 0 {
		t.Errorf("after one reading %v", now)
	}
	step(map[group.ID]uint64{1: 1000})
	if now := l.published(); !maps.Equal(now, map[group.ID]uint64{1: 1000, 2: 0}) {
		t.Errorf("after two %v", now)
	}
	step(nil)
	step(nil)
	if now := l.published(); now[1] < 490 || now[1] > 510 {
		t.Errorf("after its half time %v", now)
	}
	units[1] = 7 // a namespace is gone
	step(nil)
	if now := l.published(); now[1] == 0 || now[1] > 510 {
		t.Errorf("after a counter went back %v", now)
	}
	delete(units, 2)
	units[3] = 1 << 40
	step(nil)
	if now := l.published(); len(now) != 1 {
		t.Errorf("of groups that went and came %v", now)
	}
}
