package waiter

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Waiter {
	t.Helper()
	return opened(t, &Waiter{})
}

func opened(t *testing.T, w *Waiter) *Waiter {
	t.Helper()
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// slept returns how long a Wait took, and what it returned, or the next Wait if it was blind.
func slept(w *Waiter, d time.Duration) (time.Duration, []int) {
	start := time.Now()
	events, blind := w.Wait(d)
	took := time.Since(start)
	if blind {
		events, _ = w.Wait(0)
	}
	var fds []int
	for _, e := range events {
		fds = append(fds, int(e.Fd))
	}
	return took, fds
}

const timeLimit = 10 * time.Second // generous, for a busy machine

// TestLimits: short and long sleeps end by themselves. One may end early because of a signal.
func TestLimits(t *testing.T) {
	w := open(t)
	for _, d := range []time.Duration{0, 300 * time.Microsecond, coarse - 1, coarse, 30 * time.Millisecond, time.Millisecond} {
		var whole time.Duration
		for range 20 {
			took, fds := slept(w, d-whole)
			if len(fds) > 0 {
				t.Fatalf("%v are readable", fds)
			}
			if whole += took; whole >= d {
				break
			}
		}
		if whole < d || whole > d+timeLimit {
			t.Errorf("slept %v for %v", whole, d)
		}
	}
}

// TestReadable: a descriptor ends sleeps of either kind, whether it was readable before or becomes so, and no sleeps
// after it has been read.
func TestReadable(t *testing.T) {
	for name, how := range map[string]struct {
		guesses bool
		add     func(w *Waiter, fd int) error
	}{"added": {false, (*Waiter).Add}, "quiet": {false, (*Waiter).Quiet}, "guesses": {true, (*Waiter).Add}} {
		for _, limit := range []time.Duration{time.Millisecond, timeLimit, -1} {
			w := opened(t, &Waiter{Guesses: how.guesses})
			r, in := pipe(t)
			if err := how.add(w, r); err != nil {
				t.Fatal(err)
			}
			for _, late := range []time.Duration{0, 5 * time.Millisecond} {
				if late > 0 && limit == time.Millisecond {
					continue
				}
				done := make(chan struct{})
				write := func() { unix.Write(in, []byte{1}); close(done) }
				if late == 0 {
					write()
				} else {
					time.AfterFunc(late, write)
				}
				began := time.Now()
				took, fds := slept(w, limit)
				for len(fds) == 0 && time.Since(began) < timeLimit { // a signal came
					took, fds = slept(w, limit)
				}
				if len(fds) != 1 || fds[0] != r {
					t.Errorf("%s, limit %v: after %v %v are readable, want %d", name, limit, took, fds, r)
				}
				<-done
				unix.Read(r, make([]byte, 8))
			}
			if _, fds := slept(w, 3*time.Millisecond); len(fds) > 0 {
				t.Errorf("%s, limit %v: %v are readable after all was read", name, limit, fds)
			}
		}
	}
}

// TestQuietWhileAwake: a descriptor that became readable outside a sleep ends the next sleep, even after a sleep that
// something else ended.
func TestQuietWhileAwake(t *testing.T) {
	w := open(t)
	r, in := pipe(t)
	if err := w.Quiet(r); err != nil {
		t.Fatal(err)
	}
	w.Wait(time.Millisecond) // ends by its timeout
	w.Wait(5 * time.Millisecond)
	unix.Write(in, []byte{1})
	for range 3 { // it is level-triggered, as far as sleeps go
		if _, fds := slept(w, -1); len(fds) != 1 || fds[0] != r {
			t.Errorf("%v are readable, want %d", fds, r)
		}
	}
}

func TestWake(t *testing.T) {
	w := open(t)
	for range 200 {
		w.Wake() // before the sleep
		w.Wait(-1)
		done := make(chan struct{})
		go func() { w.Wake(); close(done) }() // perhaps during the sleep
		w.Wait(-1)
		<-done
	}
	if took, _ := slept(w, 20*time.Millisecond); took < 10*time.Millisecond {
		took, _ = slept(w, 20*time.Millisecond) // the last call may have come after the last Wait
		if took < 10*time.Millisecond {
			t.Errorf("slept %v, want 20 ms: an old call woke twice", took)
		}
	}
}

func TestWakeAfterClose(t *testing.T) {
	w := open(t)
	w.Close()
	w.asleep.Store(true) // as if Wake had raced with the end of Wait
	w.Wake()
	w.Close()
	(&Waiter{}).Close()
}

// A sleeper must not delay the scheduler, which stops all goroutines for a garbage collection.
func TestCollectsGarbage(t *testing.T) {
	for _, d := range []time.Duration{coarse - 1, -1} {
		w := open(t)
		done := make(chan struct{})
		var stop atomic.Bool
		go func() {
			defer close(done)
			for !stop.Load() {
				w.Wait(d)
			}
		}()
		for !w.Asleep() {
			runtime.Gosched()
		}
		start := time.Now()
		runtime.GC()
		if took := time.Since(start); took > timeLimit {
			t.Errorf("a garbage collection took %v", took)
		}
		stop.Store(true)
		w.Wake()
		select {
		case <-done:
		case <-time.After(timeLimit):
			t.Fatal("Wake did not wake")
		}
	}
}

func TestNoAllocation(t *testing.T) {
	w := open(t)
	if n := testing.AllocsPerRun(100, func() { w.Wake(); w.Wait(-1); w.Wait(50 * time.Microsecond); w.Wait(coarse) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
