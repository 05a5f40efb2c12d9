package shard

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Poller is something else that the loop drives: a backend's queue.
type Poller interface {
	// Poll moves on without blocking and reports whether there was anything to do.
	Poll() bool
	// Arm prepares for a sleep of the loop. It reports false when there is
	// something to do already, so that the loop must not sleep.
	Arm() bool
}

// AddPoller makes the loop poll p in every turn.
func (s *Shard) AddPoller(p Poller) { s.pollers = append(s.pollers, p) }

// RemovePoller ends that. It may be called from p.Poll.
func (s *Shard) RemovePoller(p Poller) {
	kept := make([]Poller, 0, len(s.pollers))
	for _, q := range s.pollers {
		if q != p {
			kept = append(kept, q)
		}
	}
	s.pollers = kept // a new array: the old one may be iterated over
}

// Watch makes a readable descriptor end the loop's sleep.
func (s *Shard) Watch(fd int) error { return s.cq.Watch(fd) }

// retryInterval bounds the sleep while a consumer asks to retry: what it waits
// for (a lease that another shard holds) sends no notice.
const retryInterval = int64(50 * time.Microsecond)

// Turn runs one turn without sleeping and reports whether it did anything.
func (s *Shard) Turn() bool {
	s.kick.Store(false)
	n := s.cq.Poll(s.cs[:])
	s.turnBegins(s.cq.Now())
	s.lookHeldUp()
	// After the clock was read: a timer that a function sets counts from now,
	// not from before the loop slept.
	messages := s.mail.run()
	s.stats.Messages += uint64(messages)
	useful := messages > 0 || s.cq.Busy()
	first := s.firstPart(n)
	s.dispatch(s.cs[:first])
	if first < n {
		s.serveFlushes()
		s.cq.Flush()
		s.dispatch(s.cs[first:n])
	}
	for i := 1; i < drainPolls && s.drain && s.cq.Busy(); i++ {
		k := s.cq.Poll(s.cs[:])
		s.lookHeldUp()
		s.dispatch(s.cs[:k])
		n += k
	}
	if len(s.retired) > 0 {
		s.vacant = append(s.vacant, s.retired...)
		s.retired = s.retired[:0]
	}
	useful = s.timers.run(s.now) || n > 0 || useful
	if useful {
		s.lookHeldUp()
	}
	for _, p := range s.pollers {
		useful = p.Poll() || useful
	}
	for _, a := range s.arenas {
		useful = a.Serve() || useful
	}
	useful = s.serveRetries() || useful
	useful = s.serveFlushes() || useful
	s.cq.Flush()

	s.stats.Turns++
	s.vain++
	s.useful = useful
	if useful {
		s.stats.Useful++
		s.vain = 0
	}
	return useful
}

// turnBegins counts the turn before, which has lasted until now: after a turn that found something to do the
// loop goes on at once.
func (s *Shard) turnBegins(now int64) {
	if s.useful {
		s.stats.Busy += time.Duration(now - s.now)
		s.stats.Loop.Observe(now - s.now)
	}
	s.now = now
	if s.onTurn != nil {
		s.onTurn(now)
	}
}

// heldUp is after what time OnHeldUp's function is called.
const heldUp = 500 * time.Millisecond

// lookHeldUp looks how long ago it looked last. It reads the clock: that of the completion queue is of before
// what has arrived was taken from the device, in which the loop may have been held up.
// The monotonic clock stands still while the machine sleeps; the wall clock is moved as it wakes, before any process goes on. If
// somebody sets that, the function is called for nothing.
func (s *Shard) lookHeldUp() {
	if s.onHeldUp == nil {
		return
	}
	now := time.Now()
	wall := now.Round(0)
	held := now.Sub(s.looked) > heldUp || wall.Sub(s.wall) > heldUp
	if s.looked, s.wall = now, wall; held {
		s.onHeldUp()
	}
}

// drainPolls is how often a turn looks for more at most.
const drainPolls = 16

// Drain says whether a turn takes all that has arrived, so that it is consumers
// who decide in which order they serve it.
func (s *Shard) Drain(all bool) { s.drain = all }

// Expect says that the loop will hear of n more operations' ends soon, or of fewer if
// n is negative: it polls longer before it sleeps. Any goroutine may call it.
func (s *Shard) Expect(n int) { s.spin.expected.Add(int64(n)) }

// Send hands over what was begun since the last turn, without looking for more as
// a turn does first: for a holder of the loop who has just begun an operation. A
// system call that finds nothing costs half a microsecond.
func (s *Shard) Send() {
	s.cq.Poll(nil)
	s.now = s.cq.Now()
	if s.serveFlushes() {
		s.spin.began(s.now)
	}
	s.cq.Flush()
}

// firstPart is how many of n completions are answered before the rest is looked at.
// Where requests come all at once after a wait, the peer has nothing left to do but
// to wait in turn; answered in two parts, both are busy from then on. 4 KiB reads at
// queue depth 32: 320,000 to 475,000 a second.
func (s *Shard) firstPart(n int) int {
	if s.lease.dedicated && s.vain >= splitIdle && n >= splitFrom && n < completionBatch {
		return n / 2
	}
	return n
}

const (
	splitFrom = 16
	splitIdle = 16 // turns that found nothing before
)

func (s *Shard) dispatch(cs []rdmatransport.Completion) {
	for i := range cs {
		c := &cs[i]
		index := c.ID >> 32
		if index < uint64(len(s.slots)) {
			if t := s.slots[index]; t != nil {
				t.consumer.Complete(c, uint32(c.ID))
			}
		}
	}
	s.stats.Completions += uint64(len(cs))
}

// step is a turn and what follows it: going on, a yield or a sleep. It reports
// false if the loop has been taken from a resident asleep.
func (s *Shard) step() bool {
	if s.Turn() {
		s.yielder.Turn(true)
		s.spin.worked(s.now)
		return true
	}
	s.yielder.Polled(s.now)
	if s.polling == nvmeof.PollAlways || !s.spin.over(s.now, s.yielder.Crowded()) {
		s.yielder.Turn(false)
		return true
	}
	if s.lease.napping.Load() {
		s.rouse()
		s.yielder.Await()
		return true // one goroutine at a time can sleep
	}
	slept, mine := s.sleep()
	switch {
	case !mine: // nor is anything else of the loop's
	case slept:
		s.yielder.Woke()
	default:
		s.yielder.Turn(false)
	}
	return mine
}

// sleep waits in the completion queue. The order of flag and checks matters:
// whoever queues something sets it down first and looks at the flag second. It
// reports whether it waited, and false if somebody has taken the loop meanwhile.
func (s *Shard) sleep() (slept, mine bool) {
	for _, p := range s.pollers {
		if !p.Arm() {
			return false, true
		}
	}
	d, mine := s.idle(), true
	s.sleeping.Store(true)
	if !s.mail.pending() && !s.kick.Load() && !s.closing() {
		s.stats.Sleeps++
		s.yielder.Paused()
		slept, mine = d != 0, s.nap(d)
	}
	s.sleeping.Store(false)
	return slept, mine
}

// idle is how long the loop may sleep: nanoseconds, negative without limit.
func (s *Shard) idle() int64 {
	d := s.timers.next(s.now)
	if len(s.flush.waiting) > 0 {
		return 0
	}
	for _, a := range s.arenas {
		if a.ready {
			return 0
		}
	}
	if len(s.retry.waiting) > 0 && (d < 0 || d > retryInterval) {
		d = retryInterval
	}
	if due := s.cq.Due(); d < 0 || due >= 0 && due < d {
		d = due
	}
	return d
}
