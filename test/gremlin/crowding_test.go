package main

import (
	"os"
	"testing"
	"time"
)

// TestShare: only processor time that others waited for counts as taken from them.
func TestShare(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		own, idle, waited, lasted time.Duration
		waits                     time.Duration // per second without an attack
		processors                int
		want                      float64
	}{
		"nothing used":               {0, 0, 0, s, 0, 2, 0},
		"one of two":                 {s, 0, 2 * s, s, 0, 2, 0.5},
		"one of two, one idle":       {s, s, s, s, 0, 2, 0},
		"one of two, half idle":      {s, s / 2, s, s, 0, 2, 0.25},
		"nobody waited":              {s, 0, 0, s, 0, 2, 0},
		"they waited for half of it": {s, 0, s / 2, s, 0, 2, 0.25},
		"they do so always":          {4 * s, 0, 4 * s, 4 * s, s, 2, 0},
		"one of sixteen":             {5 * s, 0, 9 * s, 5 * s, 0, 16, 1. / 16},
		"the kernel's rounding":      {2*s + 1, -1, 4 * s, s, 0, 2, 1},
		"no time":                    {0, 0, 0, 0, 0, 2, 0},
	} {
		during := crowding{lasted: c.lasted, idle: c.idle, own: c.own, waited: c.waited}
		if got := during.share(crowding{lasted: s, waited: c.waits}, c.processors); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestWaited: a process that shares a processor with others waits for it.
func TestWaited(t *testing.T) {
	before, err := crowdingOf([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := crowdingOf([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if d := after.since(before); d.own <= 0 || d.lasted < 20*time.Millisecond || d.waited < 0 {
		t.Errorf("%+v", d)
	}
	// If the attack has ended the target, its waiting time is 0 and no error, so that the row can report that.
	if c, err := crowdingOf([]int{1 << 30}); err != nil || c.waited != 0 {
		t.Errorf("a process that is not there: waited %v, %v", c.waited, err)
	}
}

// TestJudgeCrowded: the bound of the rate is scaled by the processors that are left.
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
