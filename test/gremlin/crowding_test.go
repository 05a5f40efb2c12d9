package main

import (
	"testing"
	"time"
)

// TestTaken: only what somebody else would have used is taken from them.
func TestTaken(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		own, idle, lasted time.Duration
		processors        int
		want              float64
	}{
		"nothing used":          {0, 0, s, 2, 0},
		"one of two":            {s, 0, s, 2, 0.5},
		"one of two, one idle":  {s, s, s, 2, 0},
		"one of two, half idle": {s, s / 2, s, 2, 0.25},
		"one of sixteen":        {5 * s, 0, 5 * s, 16, 1. / 16},
		"the kernel's rounding": {2*s + 1, -1, s, 2, 1},
		"no time":               {0, 0, 0, 2, 0},
	} {
		if got := taken(c.own, c.idle, c.lasted, c.processors); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestJudgeCrowded: the bound of the rate is for the processors that are left.
func TestJudgeCrowded(t *testing.T) {
	b := bounds{ratio: 0.5}
	for _, c := range []struct {
		rate, crowded float64
		broke         bool
	}{{50, 0, false}, {49, 0, true}, {26, 0.5, false}, {24, 0.5, true}} {
		r := result{before: sample{Rate: 100}, during: sample{Rate: c.rate}, after: sample{Rate: 100}, crowded: c.crowded}
		if r.judge(&b); (len(r.faults) > 0) != c.broke {
			t.Errorf("%v of 100, %v taken: faults %q", c.rate, c.crowded, r.faults)
		}
	}
}
