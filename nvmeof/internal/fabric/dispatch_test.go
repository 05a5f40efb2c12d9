package fabric

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCommandsTakeTurns: beside a host that has hundreds of commands outstanding, few of
// those come before the one command of another host, which otherwise waits for all.
func TestCommandsTakeTurns(t *testing.T) {
	const queues, depth = 4, 100
	for _, taking := range []bool{true, false} {
		r := newRig(t, 0)
		var d *Dispatcher
		if taking {
			d = NewDispatcher(r.target.shard)
		}
		var parties [2]Party
		var ends []func() bool
		others, left := 0, false
		add := func(p *Party, depth int, op capsule.IOOpcode, done func()) {
			s := r.newStore(64 << 10)
			h := r.queues(s, TargetConfig{Depth: depth + 1, Dispatcher: d}, HostConfig{Depth: depth + 1})
			s.queue.SetParty(p, true)
			m := r.hostMemory(4096, false)
			for range depth {
				q := transfer(op, m, 0, 4096, 0)
				q.Done = func(q *Request) {
					if done(); !left {
						if err := h.Submit(q); err != nil {
							t.Fatal(err)
						}
					}
				}
				q.Done(q)
			}
			ends = append(ends, func() bool { return endIdle(h, s) })
		}
		for i := range parties {
			parties[i].Open(r.target.shard)
		}
		for range queues {
			add(&parties[1], depth, capsule.IORead, func() { others++ })
		}
		most, n, at := 0, 0, -1
		add(&parties[0], 1, capsule.IORead, func() {
			if at >= 0 {
				if n++; n > 5 { // at first nobody knows that there are two
					most = max(most, others-at)
				}
			}
			at = others
		})
		r.until("the one host's commands end", func() bool { return n == 200 })
		if limit := 5 * shardTurn / atOnce; taking && most > limit {
			t.Errorf("up to %d commands of another host came before, want %d at most", most, limit)
		} else if !taking && most < limit {
			t.Errorf("in the order of arrival only %d came before: the test shows nothing", most)
		}
		left = true
		for _, end := range ends {
			r.until("both ends have ended", end)
		}
		if taking && d.line.First() != nil {
			t.Error("a party waits for ever")
		}
	}
}

// endIdle ends a queue that has nothing outstanding, and reports whether both ends have ended.
func endIdle(h *HostQueue, s *store) bool {
	if h.Outstanding() == 0 {
		h.Disconnect()
	}
	return h.State() == StateClosed && s.closed == 1
}

// TestTurnsAreEqual: hosts that have more outstanding than begins in a turn get the same bytes.
func TestTurnsAreEqual(t *testing.T) {
	r := newRig(t, 0)
	d := NewDispatcher(r.target.shard)
	var parties [3]Party
	var got [3]float64
	for i, c := range []struct{ queues, depth, size int }{{1, 100, 4 << 10}, {8, 100, 4 << 10}, {2, 100, 32 << 10}} {
		parties[i].Open(r.target.shard)
		for range c.queues {
			s := r.newStore(64 << 10)
			h := r.queues(s, TargetConfig{Depth: c.depth + 1, Dispatcher: d}, HostConfig{Depth: c.depth + 1})
			s.queue.SetParty(&parties[i], true)
			m := r.hostMemory(c.size, false)
			for range c.depth {
				q := transfer(capsule.IORead, m, 0, c.size, 0)
				q.Done = func(q *Request) {
					got[i] += float64(commandCost + c.size)
					if err := h.Submit(q); err != nil {
						t.Fatal(err)
					}
				}
				if err := h.Submit(q); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 200 {
		r.turn()
	}
	got = [3]float64{}
	for range 2000 {
		r.turn()
	}
	sum, squares := 0.0, 0.0
	for _, n := range got {
		sum += n
		squares += n * n
	}
	if j := sum * sum / (squares * float64(len(got))); j < 0.98 {
		t.Errorf("fairness %.3f: %.0f", j, got)
	}
}
