package shard

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// The holders of the loop. The loop changes hands by compare-and-swap from holderFree or holderAsleep, or by a store of
// the current holder.
const (
	holderFree uint32 = iota
	holderResident
	holderCaller
	holderAsleep // the resident sleeps in the completion queue and touches nothing else
)

// takeBack is how long the loop may be without a holder before the resident takes it. It bounds the delay of
// keep-alives and retransmissions.
const takeBack = time.Millisecond

// A lease records which goroutine runs the loop.
type lease struct {
	dedicated bool
	holder    atomic.Uint32
	tenures   atomic.Uint32 // how often a caller has held it
	wanted    atomic.Bool   // a caller wants it from the resident
	summons   chan struct{} // the resident has been made holder
	napping   atomic.Bool   // the resident is in the completion queue's Wait

	// Only the owner uses these.
	parked  list.List[Waiter]
	crowded int64 // when more than one waiter was last parked
	bound   bool  // see BindThread
	woken   bool  // the sleeping resident from which the loop was taken has been woken
}

func (l *lease) init(dedicated bool) {
	l.dedicated = dedicated
	l.summons = make(chan struct{}, 1)
	l.crowded = math.MinInt64 / 2
}

// TryHold takes the loop if it has no holder or its holder is asleep; waking the holder would take longer than the
// operation. The caller is the owner until Release and must not block until then. Any goroutine may call it.
func (s *Shard) TryHold() bool {
	l := &s.lease
	switch {
	case l.holder.CompareAndSwap(holderFree, holderCaller):
	case l.holder.CompareAndSwap(holderAsleep, holderCaller):
		l.woken = false
		s.cq.Poll(nil) // updates the clock, which stood still
		s.now = s.cq.Now()
	default:
		return false
	}
	l.tenures.Add(1)
	return true
}

// nap is the sleep of a resident during which callers may take the loop. It reports whether the loop is still the
// resident's.
func (s *Shard) nap(d int64) bool {
	l := &s.lease
	switch {
	case l.dedicated && !l.bound:
		runtime.UnlockOSThread()
		s.cq.Wait(d)
		runtime.LockOSThread()
		return true
	case l.dedicated || l.holder.Load() != holderResident:
		s.cq.Wait(d)
		return true
	}
	l.napping.Store(true)
	l.holder.Store(holderAsleep)
	s.cq.Wait(d)
	mine := l.holder.CompareAndSwap(holderAsleep, holderResident)
	l.napping.Store(false)
	return mine
}

// rouse ends the sleep of a resident from which the loop was taken, so that it enters standBy. Otherwise the kernel
// would wake it for each datagram.
func (s *Shard) rouse() {
	if l := &s.lease; !l.woken && l.napping.Load() {
		l.woken = true
		s.cq.Wake()
	}
}

// AskHold makes the resident leave the loop soon, so that a later TryHold succeeds. It is for a goroutine that polls.
// Any goroutine may call it.
func (s *Shard) AskHold() {
	l := &s.lease
	if !l.dedicated && l.holder.Load() == holderResident && !l.wanted.Swap(true) {
		s.Wake()
	}
}

// Release gives the loop back after TryHold. If goroutines wait for operations, the resident takes the loop at once.
func (s *Shard) Release() {
	s.apart()
	s.rouse()
	l := &s.lease
	if l.parked.First() != nil || s.closing() {
		l.holder.Store(holderResident)
		l.summons <- struct{}{}
		return
	}
	s.vacate()
}

// apart ends the run of consecutive turns: the next turn does not follow the one before at once.
func (s *Shard) apart() {
	s.useful = false
	s.yielder.Paused()
}

// vacate leaves the loop without a holder, unless a message has arrived meanwhile.
func (s *Shard) vacate() {
	s.lease.holder.Store(holderFree)
	if s.mail.pending() || s.closing() {
		s.summon()
	}
}

// Attend makes the resident take the loop now if it has no holder. It is for a goroutine that has been polling and is
// about to sleep. Any goroutine may call it.
func (s *Shard) Attend() { s.summon() }

// summon makes sure that the loop runs, because something was just queued.
func (s *Shard) summon() {
	l := &s.lease
	if s.state.Load() != stateNew && l.holder.CompareAndSwap(holderFree, holderResident) {
		l.summons <- struct{}{} // never full: the resident receives before it releases the loop
		return
	}
	s.Wake()
}

// BindThread keeps the loop of a dedicated shard on its present OS thread from now on, for a poller that needs that.
// Otherwise the loop keeps its thread only while it is awake, because the sleep of a bound goroutine takes two thread
// switches.
func (s *Shard) BindThread() { s.lease.bound = true }

// reside is the resident goroutine.
func (s *Shard) reside() {
	defer close(s.ended)
	if s.lease.dedicated {
		runtime.LockOSThread() // the thread ends with the goroutine
	}
	timer := time.NewTimer(takeBack)
	defer timer.Stop()
	for !s.closing() {
		if !s.step() || s.letGo() {
			s.standBy(timer)
		}
	}
	s.finish()
}

// letGo passes the loop to a caller where that is faster: to the only goroutine that waits for an operation, or to one
// that polls.
func (s *Shard) letGo() bool {
	l := &s.lease
	if l.dedicated || s.closing() {
		return false
	}
	w := l.parked.First()
	if w == nil {
		if !l.wanted.Load() {
			return false
		}
		l.wanted.Store(false)
		s.apart()
		s.vacate()
		return true
	}
	if w.link.Next() != nil || s.now-l.crowded < int64(takeBack) {
		return false
	}
	l.parked.Remove(&w.link)
	w.holds = true
	s.apart()
	s.stats.Handovers++
	l.tenures.Add(1)
	l.holder.Store(holderCaller)
	w.wake <- struct{}{}
	return true
}

// standBy returns when the resident is the holder again.
func (s *Shard) standBy(timer *time.Timer) {
	l := &s.lease
	seen := l.tenures.Load()
	for {
		timer.Reset(takeBack)
		select {
		case <-l.summons:
			return
		case <-timer.C:
		}
		tenures := l.tenures.Load()
		if tenures == seen && l.holder.CompareAndSwap(holderFree, holderResident) {
			return
		}
		seen = tenures
	}
}

// finish ends the loop: it runs the queued functions and fails the waiters with ErrClosed.
func (s *Shard) finish() {
	s.mail.seal()
	for w := s.lease.parked.First(); w != nil; w = s.lease.parked.First() {
		s.lease.parked.Remove(&w.link)
		w.err = ErrClosed
		w.wake <- struct{}{}
	}
	s.state.Store(stateClosed)
}
