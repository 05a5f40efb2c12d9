// Package yield lets others have the processor while a loop polls: the Go scheduler,
// and the kernel where more threads poll than there are processors.
package yield

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// idleWeight is how much more a turn counts that found nothing to do.
	idleWeight = 16
	// yieldAt is 64 idle turns or 1024 useful ones.
	yieldAt = 1024
	// spareYields is how many yields to the kernel come before one to the Go
	// scheduler where GOMAXPROCS exceeds the number of CPUs, as it does where whoever
	// started the loops left a processor for the rest of the program. A yield to Go
	// then wakes a thread, by an interrupt to a CPU that polls, and costs more than
	// all else in a turn.
	spareYields = 64
)

// A Loop lets others run while a loop polls, which owns it. The zero value is ready.
type Loop struct {
	weight  uint32 // of the turns since the last yield to Go or the kernel
	yields  uint32 // to the kernel, since the last to the Go scheduler
	every   uint32
	single  bool   // the Go scheduler has one processor
	idle    uint32 // idle turns since the kernel was last given the processor
	spacing uint32 // idle turns until it is given again
	wanted  uint32 // of the last offers, how many in a row somebody else took

	last   int64 // nanoseconds: when the turn before ended, if it found nothing; else 0
	polled int64 // nanoseconds in turns that found nothing, of late
	lost   int64 // of these, in turns during which others had the processor
}

// After so many idle turns the kernel gets the processor: where more threads poll than
// there are processors, each holds up another in whose answer it would find its next
// work; a host, its client and a target on two processors are such a case. A loop that is
// alone on its processor, as the kernel's quick return shows, asks ever less often, since
// asking costs it time in which an answer may come.
const (
	leastSpacing = 4
	mostSpacing  = 64
)

// aloneBelow is how long the kernel takes at most to find that nobody else waits for the
// processor.
const aloneBelow = 1500 * time.Nanosecond

// Woke is called when a loop has slept, or begins work for a caller: the kernel
// likes to wake the peer of whom we send to on our own processor, even if another
// is free, where it waits for us as we wait for it. So the kernel gets the
// processor soon.
func (l *Loop) Woke() { l.spacing, l.last = leastSpacing, 0 }

// Paused is called when the loop is about to sleep, or is left to somebody else: what comes next does not
// follow the turn before.
func (l *Loop) Paused() { l.last = 0 }

// Turn is called after each turn of the loop.
func (l *Loop) Turn(useful bool) {
	l.weight++
	if useful {
		l.last = 0
	} else {
		l.weight += idleWeight - 1
		if l.idle++; l.idle >= l.spacing {
			l.offer()
		}
	}
	if l.weight >= yieldAt {
		l.yield()
	}
}

// offer lets the kernel have the processor, and learns from how long that took whether
// somebody wanted it.
func (l *Loop) offer() {
	before := time.Now()
	Processor()
	l.idle = 0
	if time.Since(before) < aloneBelow {
		l.spacing, l.wanted = min(max(2*l.spacing, leastSpacing), mostSpacing), 0
	} else {
		l.spacing, l.wanted = leastSpacing, min(l.wanted+1, crowdedFrom)
	}
}

// A turn that found nothing takes a few microseconds, unless others had the processor meanwhile. The kernel
// gives it to those that it wakes, who then do not wait for a yield.
const (
	lostFrom = 20 * time.Microsecond
	window   = time.Millisecond // of polling, over which that is added up
	lostMost = 4                // others want the processor where they had more than such a part of the time
)

// Polled takes the time, in nanoseconds of a monotonic clock, after a turn that found nothing.
func (l *Loop) Polled(now int64) {
	if d := now - l.last; l.last > 0 {
		l.polled += d
		if d >= int64(lostFrom) {
			l.lost += d
		}
		if l.polled >= int64(window) {
			l.polled, l.lost = l.polled/2, l.lost/2
		}
	}
	l.last = now
}

// crowdedFrom is how many times in a row somebody else takes the processor where others want it: once may
// be the kernel itself, for a moment.
const crowdedFrom = 2

// Crowded reports whether others have wanted the processor of late, by what offers and turns that found
// nothing took. To poll then keeps it from them, who may be those on whom the loop waits, and to sleep
// costs little: a processor that is in use need not be woken.
func (l *Loop) Crowded() bool {
	return l.wanted == crowdedFrom || l.polled >= int64(window)/2 && l.lost > l.polled/lostMost
}

// Await is called in a turn after which nothing happens until another goroutine has run
// that was just woken.
func (l *Loop) Await() {
	l.learn()
	if l.single {
		runtime.Gosched()
	}
	Processor()
	l.Turn(false)
}

// learn takes what processors the Go scheduler has, once.
func (l *Loop) learn() {
	if l.every > 0 {
		return
	}
	procs := runtime.GOMAXPROCS(0)
	l.every, l.single = 1, procs == 1
	if procs > runtime.NumCPU() {
		l.every = spareYields
	}
}

func (l *Loop) yield() {
	l.learn()
	l.weight = 0
	// Loops may hold every processor of the Go scheduler's, and other goroutines,
	// timers and the network poller wait for them.
	if l.yields++; l.yields >= l.every {
		l.yields = 0
		runtime.Gosched()
	}
	Processor()
}

// Processor lets the kernel run another thread on this processor. Without it a
// spinning loop keeps its CPU for a whole time slice of the kernel's,
// milliseconds, from the very thread that it waits for. It returns at once where
// nobody waits.
func Processor() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
