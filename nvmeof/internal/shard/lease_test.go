package shard

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// operate returns a waiter for an operation that completes through the completion queue after a delay.
func operate(s *Shard, cq *fakeCQ, delay time.Duration) *Waiter {
	r := &recorder{}
	attached := false
	var w *Waiter
	timer := Timer{}
	timer.Func = func() { cq.complete(r.slot.ID(1)) }
	r.complete = func(uint32) { w.Done() }
	w = s.NewWaiter(func() {
		if !attached {
			attached = true
			s.Attach(&r.slot, r)
		}
		s.SetTimer(&timer, delay)
	})
	return w
}

// TestCallerDrives: once the resident has let go, a caller needs no other goroutine.
func TestCallerDrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		w := operate(s, cq, 10*time.Microsecond)
		for range 50 {
			if err := w.Await(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		var handovers uint64
		s.Call(func() { handovers = s.Stats().Handovers })
		if handovers > 1 { // none if the resident slept before the first
			t.Errorf("the loop was handed over %d times for 50 operations in a row, want once", handovers)
		}
	})
}

// TestTakeBack: the resident holds the loop again after a millisecond.
func TestTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		if err := operate(s, cq, 0).Await(); err != nil {
			t.Fatal(err)
		}
		if got := s.lease.holder.Load(); got != holderFree {
			t.Fatalf("holder %d after an operation, want none", got)
		}
		time.Sleep(3 * takeBack)
		synctest.Wait()
		if got := s.lease.holder.Load(); got != holderAsleep {
			t.Errorf("holder %d after 3 ms, want the resident, asleep", got)
		}
	})
}

// TestAskHold: an awake resident leaves the loop when asked.
func TestAskHold(t *testing.T) {
	s, _ := newShard(t, Config{Polling: nvmeof.PollAlways})
	s.Start()
	if s.TryHold() {
		t.Error("the loop could be held while the resident runs it")
	}
	for start := time.Now(); !s.TryHold(); runtime.Gosched() {
		if time.Since(start) > time.Minute {
			t.Fatal("the resident did not leave the loop when asked")
		}
		s.AskHold() // again: a late caller finds that the resident has taken it back
	}
	s.Turn()
	s.Release()
}

// TestHoldWhileAsleep: a caller need not wait until the resident is awake. The resident then stands by, and takes the
// loop back later.
func TestHoldWhileAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		w := operate(s, cq, 10*time.Microsecond)
		for range 5 {
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := s.lease.holder.Load(); got != holderAsleep {
				t.Fatalf("holder %d, want the resident, asleep", got)
			}
			start := time.Now()
			if err := w.Await(); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > 20*time.Microsecond {
				t.Errorf("an operation of 10 us took %v", d)
			}
			synctest.Wait()
			if s.lease.napping.Load() {
				t.Error("the resident still sleeps in the completion queue")
			}
		}
		if n := s.Stats().Handovers; n != 0 {
			t.Errorf("%d handovers, want none", n)
		}
	})
}

// TestTimerOfCallerWhileAsleep: a caller's timer fires although the resident was sleeping without limit when it was
// set.
func TestTimerOfCallerWhileAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{})
		s.Start()
		time.Sleep(time.Hour)
		fired := make(chan time.Time, 1)
		timer := Timer{Func: func() { fired <- time.Now() }}
		if !s.TryHold() {
			t.Fatal("the resident does not sleep")
		}
		due := time.Now().Add(time.Second)
		s.SetTimer(&timer, time.Second)
		s.Release()
		if late := (<-fired).Sub(due); late < 0 || late > 2*takeBack {
			t.Errorf("the timer fired %v late", late)
		}
	})
}

// TestDoWhileHeld: a message that arrives while a caller has the loop of a sleeping resident is run by the caller, or
// by the resident right after.
func TestDoWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{})
		s.Start()
		time.Sleep(time.Hour)
		if !s.TryHold() {
			t.Fatal("the resident does not sleep")
		}
		ran := make(chan time.Time, 1)
		s.Do(func() { ran <- time.Now() })
		start := time.Now()
		s.Release()
		if d := (<-ran).Sub(start); d > 0 {
			t.Errorf("a function waited %v", d)
		}
	})
}

// TestTimersWithoutCaller: timers fire although no goroutine calls.
func TestTimersWithoutCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		fired := make(chan time.Time, 1)
		timer := Timer{Func: func() { fired <- time.Now() }}
		s.Call(func() { s.SetTimer(&timer, 50*time.Millisecond) })
		due := time.Now().Add(50 * time.Millisecond)
		if err := operate(s, cq, 0).Await(); err != nil { // and releases the loop
			t.Fatal(err)
		}
		if late := (<-fired).Sub(due); late > 2*takeBack {
			t.Errorf("a timer fired %v late", late)
		}
	})
}

// TestManyCallers: all operations end, whichever caller drives the loop.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				w := operate(s, cq, time.Duration(i*7)*time.Microsecond)
				for range 100 {
					if err := w.Await(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestManyCallersRealTime lets the scheduler mix callers, holders and messages.
func TestManyCallersRealTime(t *testing.T) {
	s, cq := newShard(t, Config{Polling: nvmeof.PollAdaptive})
	s.spin.init(int64(20 * time.Microsecond))
	s.Start()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			w := operate(s, cq, time.Duration(i)*time.Microsecond)
			for range 500 {
				if err := w.Await(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 500 {
			if s.TryHold() {
				s.Turn()
				s.Release()
			} else {
				s.AskHold()
				runtime.Gosched()
			}
			s.Do(func() {})
		}
	})
	wg.Wait()
}

// TestDedicated: no other goroutine ever holds the loop.
func TestDedicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{Dedicated: true})
		s.Start()
		w := operate(s, cq, time.Microsecond)
		for range 10 {
			if err := w.Await(); err != nil {
				t.Fatal(err)
			}
			s.AskHold()
			synctest.Wait()
			if s.TryHold() {
				t.Fatal("a dedicated shard's loop could be held")
			}
		}
	})
}

func TestCloseWithWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cq := newShard(t, Config{})
		s.Start()
		errs := make(chan error, 3)
		for range 3 { // one will drive, two will sleep
			go func() { errs <- operate(s, cq, time.Hour).Await() }()
		}
		synctest.Wait()
		s.Close()
		for range 3 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("Await on a shard that closed: %v, want %v", err, ErrClosed)
			}
		}
	})
}

// TestSpinningLeavesTheRuntimeAlive: with all shards spinning, timers are on time and a garbage collection ends.
func TestSpinningLeavesTheRuntimeAlive(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 2))
	for range 2 {
		s, _ := newShard(t, Config{Polling: nvmeof.PollAlways, Dedicated: true})
		s.Start()
	}
	time.Sleep(5 * time.Millisecond)
	late, collected := time.Duration(1<<62), time.Duration(1<<62)
	for range 5 { // the machine may be busy with something else
		start := time.Now()
		<-time.After(time.Millisecond)
		late = min(late, time.Since(start)-time.Millisecond)
		start = time.Now()
		runtime.GC()
		collected = min(collected, time.Since(start))
	}
	if late > 5*time.Millisecond {
		t.Errorf("a timer of 1 ms was %v late beside spinning shards", late)
	}
	if collected > 50*time.Millisecond {
		t.Errorf("a garbage collection took %v beside spinning shards", collected)
	}
}
