// Package yield yields the processor from a polling loop: to other goroutines, and to other threads if more threads
// poll than there are processors.
package yield

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// idleWeight is the weight of a turn without work, relative to one with work.
	idleWeight = 16
	// yieldAt is 64 turns without work or 1024 with work.
	yieldAt = 1024
	// spareYields is the number of yields to the kernel per yield to the Go scheduler if GOMAXPROCS exceeds the number
	// of CPUs. That is so if the program reserved a processor for everything except the loops. A yield to Go then wakes
	// a thread by an interrupt to a polling CPU, which costs more than everything else in a turn.
	spareYields = 64
)

// A Loop yields for the polling loop that owns it. The zero value is ready.
type Loop struct {
	weight  uint32 // of the turns since the last yield to Go or the kernel
	yields  uint32 // to the kernel, since the last one to the Go scheduler
	every   uint32
	single  bool   // the Go scheduler has one processor
	idle    uint32 // turns without work since the kernel last got the processor
	spacing uint32 // turns without work until it gets it again
	wanted  uint32 // how many of the last offers in a row another thread took, up to crowdedFrom

	last   int64 // nanoseconds: when the previous turn ended, if it found no work; else 0
	polled int64 // recent nanoseconds in turns without work
	lost   int64 // of these, in turns during which other threads had the processor
}

// The kernel gets the processor after this many turns without work. If more threads poll than there are processors,
// each holds up another whose answer would be its next work: for example a host, its client and a target on two
// processors. A loop that is alone on its processor, as a quick return from the kernel shows, yields less and less
// often, since yielding costs time in which an answer may arrive.
const (
	leastSpacing = 4
	mostSpacing  = 64
)

// aloneBelow is the longest time that the kernel takes to find that no other thread waits for the processor.
const aloneBelow = 1500 * time.Nanosecond

// Woke is called when a loop has slept, or begins work for a caller. The kernel tends to wake the peer to which we send
// on our own processor, even if another one is free. There it would wait for us as we wait for it, so the kernel gets
// the processor soon.
func (l *Loop) Woke() { l.spacing, l.last = leastSpacing, 0 }

// Paused is called when the loop is about to sleep or to change its owner: the next turn does not follow the previous
// one at once.
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

// offer yields to the kernel, and learns from the duration whether another thread wanted the processor.
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

// A turn without work takes a few microseconds, unless other threads had the processor meanwhile: the kernel gives it
// to threads that it wakes, without a yield.
const (
	lostFrom = 20 * time.Microsecond
	window   = time.Millisecond // polling time over which lost time is added up
	lostMost = 4                // others want the processor if they had more than 1/lostMost of the time
)

// Polled records the end of a turn without work, in nanoseconds of a monotonic clock.
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

// crowdedFrom is how many offers in a row other threads must take for the processor to count as wanted: a single one
// may have been the kernel itself, briefly.
const crowdedFrom = 2

// Crowded reports whether other threads have recently wanted the processor, judging by the duration of offers and of
// turns without work. Polling then keeps the processor from them, and the loop may be waiting for one of them. Sleeping
// costs little: a processor that is in use need not be woken.
func (l *Loop) Crowded() bool {
	return l.wanted == crowdedFrom || l.polled >= int64(window)/2 && l.lost > l.polled/lostMost
}

// Await is called in a turn after which nothing happens until a goroutine that was just woken has run.
func (l *Loop) Await() {
	l.learn()
	if l.single {
		runtime.Gosched()
	}
	Processor()
	l.Turn(false)
}

// learn determines the Go scheduler's number of processors, once.
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
	// Loops may hold every processor of the Go scheduler, while other goroutines, timers and the network poller wait
	// for one.
	if l.yields++; l.yields >= l.every {
		l.yields = 0
		runtime.Gosched()
	}
	Processor()
}

// Processor lets the kernel run another thread on this processor. Without it a spinning loop would keep its CPU for a
// whole time slice of the kernel, milliseconds, from the very thread for which it waits. It returns at once if no
// thread waits.
func Processor() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
