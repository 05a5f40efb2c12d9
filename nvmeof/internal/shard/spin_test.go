package shard

import "testing"

// TestSpinner: what a loop learns from the intervals of its work.
func TestSpinner(t *testing.T) {
	const us = 1000
	for name, c := range map[string]struct {
		gap, want int64 // microseconds
	}{
		"back to back":                {1, 50},
		"well within":                 {20, 50},
		"a fast disk":                 {90, 180},
		"as long as it pays":          {400, 400},
		"too long to poll":            {401, 12},
		"keep alive and nothing else": {1e6, 12},
		"and its acknowledgement":     {-200, 12},
	} {
		var p spinner
		p.init(50 * us)
		now := int64(0)
		for range 100 {
			for range 3 { // a few turns for each
				now += us
				p.worked(now)
			}
			if c.gap < 0 { // a pair of events, and then a long pause
				now += 1e6 * us
				p.worked(now)
			}
			now += max(c.gap, -c.gap) * us
			p.worked(now)
		}
		if got := p.length / us; got < c.want-c.want/10 || got > c.want {
			t.Errorf("%s: polls for %d us, want %d", name, got, c.want)
		}
		if p.over(now+p.length-1, false) || !p.over(now+p.length, false) {
			t.Errorf("%s: does not end when it should", name)
		}
	}
	var never spinner
	never.init(0)
	for now := range int64(100) {
		if never.worked(now); !never.over(now, false) {
			t.Fatal("polls though it must not")
		}
	}
}

// TestSpinnerForgets: when the disk is gone, the loop stops polling for it.
func TestSpinnerForgets(t *testing.T) {
	var p spinner
	p.init(50_000)
	now := int64(0)
	learn := func() {
		for range learnAfter + 1 {
			now += 150_000
			p.worked(now)
		}
		if p.length != 300_000 {
			t.Fatalf("polls for %d", p.length)
		}
	}
	learn()
	for range 200 {
		now += 1000
		p.worked(now)
	}
	if p.length != 50_000 {
		t.Errorf("still polls for %d", p.length)
	}
	learn()
	p.worked(now + 1e9)
	if p.length != 12_500 {
		t.Errorf("polls for %d after a second without work", p.length)
	}
	p.worked(now + 1e9 + 20_000)
	if p.length != 50_000 {
		t.Errorf("polls for %d when there is work again", p.length)
	}
}

// TestExpect: the loop polls longer while an operation is outstanding, but not forever.
func TestExpect(t *testing.T) {
	const least = 50_000
	var p spinner
	p.init(least)
	p.worked(0)
	if !p.over(2*least, false) {
		t.Error("polls on although nothing is expected")
	}
	p.expected.Add(1)
	if p.over(2*least, false) {
		t.Error("sleeps although an operation is out")
	}
	if !p.over(expectFactor*least, false) {
		t.Error("polls for ever")
	}
	if p.over(least-1, true) || !p.over(least, true) {
		t.Error("on a processor that others want it does not poll for the least time")
	}
}
