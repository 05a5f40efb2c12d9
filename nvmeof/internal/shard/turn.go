package shard

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Poller is something that the loop polls in each turn, such as a backend's queue.
type Poller interface {
	// Poll makes progress without blocking and reports whether there was work.
	Poll() bool
	// Arm prepares for a sleep of the loop. It returns false if there is work already, so that the loop must not sleep.
	Arm() bool
}

// AddPoller makes the loop poll p in every turn.
func (s *Shard) AddPoller(p Poller) { s.pollers = append(s.pollers, p) }

// RemovePoller undoes AddPoller. It may be called from p.Poll.
func (s *Shard) RemovePoller(p Poller) {
	kept := make([]Poller, 0, len(s.pollers))
	for _, q := range s.pollers {
		if q != p {
			kept = append(kept, q)
		}
	}
	s.pollers = kept // a new array: the old one may be iterated over
}

// Watch makes the loop wake when the descriptor is readable.
func (s *Shard) Watch(fd int) error { return s.cq.Watch(fd) }

// retryInterval bounds the sleep while a consumer asks to retry: it may wait for a lease that another shard holds,
// whose release wakes no loop.
const retryInterval = int64(50 * time.Microsecond)

// Turn runs one turn without sleeping and reports whether it did anything.
func (s *Shard) Turn() bool {
	s.kick.Store(false)
	n := s.cq.Poll(s.cs[:])
	s.turnBegins(s.cq.Now())
	s.checkHeldUp()
	// Only after the clock was read: a timer that a function sets must count from now, not from before the loop slept.
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
		s.checkHeldUp()
		s.dispatch(s.cs[:k])
		n += k
	}
	if len(s.retired) > 0 {
		s.vacant = append(s.vacant, s.retired...)
		s.retired = s.retired[:0]
	}
	useful = s.timers.run(s.now) || n > 0 || useful
	if useful {
		s.checkHeldUp()
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

// turnBegins counts the time of the previous turn if it found work: then the loop went on at once, so the turn lasted
// until now.
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

// heldUp is the time without a turn after which the function of OnHeldUp is called.
const heldUp = 500 * time.Millisecond

// checkHeldUp measures the time since its last call. It reads its own clock: the completion queue's clock was read
// before arrived packets were taken from the device, and the loop may have been held up in that call. The monotonic
// clock stands still while the machine sleeps; the wall clock is corrected when it wakes, before any process continues.
// If the wall clock is set for another reason, the function is called unnecessarily.
func (s *Shard) checkHeldUp() {
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

// drainPolls is how often a turn polls for more completions at most.
const drainPolls = 16

// Drain selects whether a turn takes everything that has arrived, so that consumers decide in which order they serve
// it.
func (s *Shard) Drain(all bool) { s.drain = all }

// Expect tells the loop that n more operations are outstanding, or fewer if n is negative. While operations are
// outstanding the loop polls longer before it sleeps. Any goroutine may call it.
func (s *Shard) Expect(n int) { s.spin.expected.Add(int64(n)) }

// Send posts what was begun since the last turn, without polling for completions first as a turn does. It is for a
// holder of the loop that has just begun an operation; a system call that finds nothing costs half a microsecond.
func (s *Shard) Send() {
	s.cq.Poll(nil)
	s.now = s.cq.Now()
	if s.serveFlushes() {
		s.spin.began(s.now)
	}
	s.cq.Flush()
}

// firstPart returns how many of n completions are handled before the rest. If requests arrive all at once after an idle
// time, the peer has nothing left to do but wait; answered in two parts, both sides stay busy. It raises 4 KiB reads at
// queue depth 32 from 320,000 to 475,000 a second.
func (s *Shard) firstPart(n int) int {
	if s.lease.dedicated && s.vain >= splitIdle && n >= splitFrom && n < completionBatch {
		return n / 2
	}
	return n
}

const (
	splitFrom = 16
	splitIdle = 16 // turns without work before
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

// step runs a turn, then goes on at once, yields or sleeps. It returns false if a caller took the loop from the
// sleeping resident.
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
		return true // only one goroutine at a time can sleep
	}
	slept, mine := s.sleep()
	switch {
	case !mine: // the loop is no longer ours, nor is its state
	case slept:
		s.yielder.Woke()
	default:
		s.yielder.Turn(false)
	}
	return mine
}

// sleep waits in the completion queue. The order of the flag and the checks matters: a goroutine that queues something
// stores it first and reads the flag second. sleep reports whether it waited (slept), and whether the loop is still the
// resident's (mine).
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

// idle returns how long the loop may sleep in nanoseconds; negative means without limit.
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
