package shard

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

type poller struct {
	poll, arm func() bool
}

func (p *poller) Poll() bool { return p.poll() }
func (p *poller) Arm() bool  { return p.arm() }

func TestTurnOrder(t *testing.T) {
	s, cq := newShard(t, Config{})
	var log []string
	note := func(what string) func() { return func() { log = append(log, what) } }
	r := &recorder{log: &log}
	s.Attach(&r.slot, r)

	s.Do(note("message"))
	cq.complete(r.slot.ID(7))
	timer := Timer{Func: note("timer")}
	s.SetTimer(&timer, 0)
	s.AddPoller(&poller{poll: func() bool { note("backend")(); return true }})
	for range 1 << 20 / PageSize {
		if _, ok := s.Arena().Alloc(PageSize); !ok {
			t.Fatal("the arena is smaller than it says")
		}
	}
	s.Arena().Wait(&BufferWaiter{Ready: func(Buffer) { note("buffer")() }}, PageSize)
	s.Arena().Release(Buffer{s.Arena().Bytes()[:PageSize], &s.Arena().own, 0})
	r.slot.Flush()
	r.slot.Retry()
	flushed := cq.flushes
	s.Turn()

	want := []string{"message", "complete", "timer", "backend", "buffer", "retry", "flush"}
	if !slices.Equal(log, want) {
		t.Errorf("a turn did %v, want %v", log, want)
	}
	if cq.flushes != flushed+1 {
		t.Errorf("a turn flushed the completion queue %d times, want once", cq.flushes-flushed)
	}
}

func TestRouting(t *testing.T) {
	s, cq := newShard(t, Config{})
	var got [3][]uint32
	var rs [3]recorder
	for i := range rs {
		rs[i].complete = func(tag uint32) { got[i] = append(got[i], tag) }
		s.Attach(&rs[i].slot, &rs[i])
	}
	cq.complete(rs[2].slot.ID(1), rs[0].slot.ID(0xffffffff), rs[1].slot.ID(0), rs[2].slot.ID(2), 99<<32)
	s.Turn()
	if !slices.Equal(got[0], []uint32{0xffffffff}) || !slices.Equal(got[1], []uint32{0}) || !slices.Equal(got[2], []uint32{1, 2}) {
		t.Errorf("completions went to %v", got)
	}
}

// TestDetach: completions for a detached consumer are dropped, and never delivered to the next one with its index.
func TestDetach(t *testing.T) {
	s, cq := newShard(t, Config{})
	var next recorder
	first := recorder{}
	first.complete = func(uint32) {
		first.slot.Detach()
		s.Attach(&next.slot, &next)
	}
	next.complete = func(tag uint32) {
		if tag == 2 {
			t.Error("a completion reached the consumer that came after its own")
		}
	}
	s.Attach(&first.slot, &first)
	id := first.slot.ID(2)
	first.slot.Flush()
	cq.complete(first.slot.ID(1), id, id)
	s.Turn()
	if next.slot.ID(0) == id&^0xffffffff {
		t.Error("an index was used again in the turn that gave it up")
	}
	var third recorder
	s.Attach(&third.slot, &third)
	if third.slot.ID(2) != id {
		t.Error("the index was not used again in a later turn")
	}
}

// TestAskAgain: a consumer may request the same step again while it is served.
func TestAskAgain(t *testing.T) {
	s, _ := newShard(t, Config{})
	retries, flushes := 0, 0
	r := &recorder{}
	r.retry = func() { retries++; r.slot.Retry(); r.slot.Retry() }
	r.flush = func() { flushes++; r.slot.Flush() }
	s.Attach(&r.slot, r)
	r.slot.Retry()
	r.slot.Flush()
	for range 5 {
		s.Turn()
	}
	if retries != 5 || flushes != 5 {
		t.Errorf("%d retries and %d flushes in 5 turns, want 5 of each", retries, flushes)
	}
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{})
		s.Start()
		start := time.Now()
		var fired []time.Duration
		done := make(chan struct{})
		var timers [20]Timer
		s.Call(func() {
			for i := range timers {
				timers[i].Func = func() {
					fired = append(fired, time.Since(start))
					if i == 19 {
						close(done)
					}
				}
				// Set out of order: 7 and 20 are coprime.
				s.SetTimer(&timers[i*7%20], time.Duration(i*7%20+1)*time.Second)
			}
			s.StopTimer(&timers[3])
			s.SetTimer(&timers[4], time.Second/2) // earlier than it was
		})
		<-done
		if len(fired) != 19 {
			t.Fatalf("%d timers fired, want 19", len(fired))
		}
		if !slices.IsSorted(fired) || fired[0] != time.Second/2 || fired[18] != 20*time.Second {
			t.Errorf("timers fired at %v", fired)
		}
	})
}

// TestRetrySleep: while a retry is pending the loop sleeps no longer than the retry interval, and the clock of a
// synctest bubble advances.
func TestRetrySleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{})
		s.Start()
		done := make(chan struct{})
		r := &recorder{}
		deadline := time.Now().Add(time.Millisecond)
		r.retry = func() {
			if time.Now().Before(deadline) {
				r.slot.Retry()
				return
			}
			close(done)
		}
		s.Call(func() { s.Attach(&r.slot, r); r.slot.Retry() })
		<-done
		if late := time.Since(deadline); late > time.Duration(retryInterval) {
			t.Errorf("retry came %v late", late)
		}
	})
}

// TestArmKeepsAwake: a backend with work keeps the loop running.
func TestArmKeepsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{})
		left, done := 100, make(chan struct{})
		p := &poller{arm: func() bool { return left <= 0 }}
		p.poll = func() bool {
			if left--; left == 0 {
				close(done)
			}
			return false // results that a poll does not return
		}
		s.Start()
		s.Call(func() { s.AddPoller(p) })
		<-done
		s.Call(func() { s.RemovePoller(p) })
		if len(s.pollers) != 0 {
			t.Error("the backend is still polled")
		}
	})
}

func TestTurnAllocates(t *testing.T) {
	s, cq := newShard(t, Config{})
	r := &recorder{}
	r.complete = func(uint32) { r.slot.Flush(); r.slot.Retry() }
	s.Attach(&r.slot, r)
	timer := Timer{Func: func() {}}
	turn := func() {
		cq.complete(r.slot.ID(1))
		s.SetTimer(&timer, 0)
		s.Turn()
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%.1f allocations per turn, want none", n)
	}
}

// TestSplitBatch: a batch after an idle time is answered in two parts.
func TestSplitBatch(t *testing.T) {
	for name, c := range map[string]struct {
		vain, n, flushes int
		dedicated        bool
	}{
		"after a wait":              {splitIdle, 20, 2, true},
		"without one":               {splitIdle - 1, 20, 1, true},
		"few":                       {splitIdle, splitFrom - 1, 1, true},
		"more may be there":         {splitIdle, completionBatch, 1, true},
		"a loop that callers drive": {splitIdle, 20, 1, false},
	} {
		s, cq := newShard(t, Config{Dedicated: c.dedicated})
		r := &recorder{}
		s.Attach(&r.slot, r)
		var answered []uint32
		r.complete = func(tag uint32) {
			answered = append(answered, tag)
			r.slot.Flush()
		}
		batches := 0
		r.flush = func() { batches++ }
		s.Turn() // whatever was pending
		s.vain = 0
		for range c.vain {
			s.Turn()
		}
		for i := range c.n {
			cq.complete(r.slot.ID(uint32(i)))
		}
		s.Turn()
		if batches != c.flushes || len(answered) != c.n {
			t.Errorf("%s: %d answered in %d parts, want %d in %d", name, len(answered), batches, c.n, c.flushes)
		}
		for i, tag := range answered {
			if tag != uint32(i) {
				t.Errorf("%s: answer %d is to %d", name, i, tag)
			}
		}
		s.Turn()
		if s.vain != 1 {
			t.Errorf("%s: %d turns in vain, want 1", name, s.vain)
		}
	}
}
