package fabric

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCommandsTakeTurns: of a host with hundreds of outstanding commands only a few begin before the single command of
// another host, which otherwise waits for all.
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
				if n++; n > 5 { // at first only one party is known
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

// A reader is a host of turnsBeside.
type reader struct {
	queues, depth, size int
	contexts            int // of each queue that are free; 0: all
	cost                int // of a command in addition to its data, in bytes
}

// turnsBeside makes hosts read concurrently as much as they can, and returns the fairness index of what begins.
func turnsBeside(t *testing.T, readers ...reader) float64 {
	r := newRig(t, 0)
	d := NewDispatcher(r.target.shard)
	parties, got := make([]Party, len(readers)), make([]float64, len(readers))
	left := false
	var ends []func() bool
	for i, c := range readers {
		parties[i].Open(r.target.shard)
		for range c.queues {
			s := r.newStore(max(64<<10, c.size))
			s.cost = c.cost
			h := r.queues(s, TargetConfig{Depth: c.depth + 1, Dispatcher: d}, HostConfig{Depth: c.depth + 1})
			s.queue.SetParty(&parties[i], true)
			for n := len(s.queue.commands); c.contexts > 0 && n > c.contexts; n-- {
				s.queue.free.Pop()
			}
			m := r.hostMemory(c.size, false)
			for range c.depth {
				q := transfer(capsule.IORead, m, 0, c.size, 0)
				q.Done = func(q *Request) {
					if got[i] += float64(commandCost + c.size + c.cost); left {
						return
					}
					if err := h.Submit(q); err != nil {
						t.Fatal(err)
					}
				}
				if err := h.Submit(q); err != nil {
					t.Fatal(err)
				}
			}
			ends = append(ends, func() bool { return endIdle(h, s) })
		}
	}
	for range 200 {
		r.turn()
	}
	clear(got)
	for range 1000 {
		r.turn()
	}
	sum, squares := 0.0, 0.0
	for _, n := range got {
		sum += n
		squares += n * n
	}
	t.Logf("%.0f", got)
	left = true
	for _, end := range ends {
		r.until("both ends have ended", end)
	}
	if r.turn(); d.line.First() != nil {
		t.Error("a party waits for ever")
	}
	return sum * sum / (squares * float64(len(got)))
}

// TestTurnsAreEqual: hosts that have more outstanding than begins in a turn get the same number of bytes.
func TestTurnsAreEqual(t *testing.T) {
	if j := turnsBeside(t, reader{1, 100, 4 << 10, 0, 0}, reader{8, 100, 4 << 10, 0, 0}, reader{2, 100, 32 << 10, 0, 0}); j < 0.98 {
		t.Errorf("fairness %.3f", j)
	}
}

// TestTurnsOfLargeCommands: a host with few commands, each larger than what begins in its turn, gets no more bytes than
// others, although it sometimes has none waiting.
func TestTurnsOfLargeCommands(t *testing.T) {
	for _, depth := range []int{1, 2, 4} {
		if j := turnsBeside(t, reader{4, 100, 4 << 10, 0, 0}, reader{1, depth, 1 << 20, 0, 0}); j < 0.98 {
			t.Errorf("%d commands of 1 MiB: fairness %.3f", depth, j)
		}
	}
}

// TestTurnsWithoutContexts: a host that acknowledges responses late, so that its commands begin when a context is free,
// gets the same turns.
func TestTurnsWithoutContexts(t *testing.T) {
	if j := turnsBeside(t, reader{4, 100, 4 << 10, 50, 0}, reader{4, 100, 4 << 10, 0, 0}); j < 0.98 {
		t.Errorf("fairness %.3f", j)
	}
}

// TestTurnsOfCostlyCommands: a host whose commands take long, as Charge reports during their execution, gets no more
// than others.
func TestTurnsOfCostlyCommands(t *testing.T) {
	if j := turnsBeside(t, reader{4, 100, 4 << 10, 0, 0}, reader{1, 30, 4 << 10, 0, 1 << 20}); j < 0.98 {
		t.Errorf("fairness %.3f", j)
	}
}
