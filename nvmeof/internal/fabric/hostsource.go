package fabric

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Source groups requests of a queue that may be slower than others, for example those for one namespace. The requests
// of a source are sent in order, and each source takes bytes of the shard's budget for itself. A Source belongs to the
// queue's loop and must not be copied once it is open.
//
// The bytes that a read has taken count for at most sourceTimeout while other sources wait. Otherwise a controller that
// does not respond, or whose storage hangs, would keep the host from receiving data from all others. After that the
// source takes from the shard's SlowBudget.
type Source struct {
	queue    *HostQueue
	pending  list.List[Request]
	link     list.Link[Source] // in the queue's line, while it has requests to be sent
	quick    shard.Allowance
	slow     shard.Allowance
	from     *shard.Allowance // from which the next read takes
	slowTill int64            // takes from slow until then
	claim    shard.Claim
	granted  int // bytes of from, for the commands to be opened next
	lent     int // commands that have taken bytes of a budget
}

// sourceTimeout is how long the bytes of a read count while other sources wait. It is much longer than working storage
// takes.
const sourceTimeout = 100 * time.Millisecond

// Open makes s a source of requests of a queue.
func (s *Source) Open(q *HostQueue) {
	*s = Source{queue: q}
	s.quick.Open(q.cfg.Shard.Budget())
	s.slow.Open(q.cfg.Shard.SlowBudget())
	s.from = &s.quick
	s.claim.Reclaim = s.reclaim
}

// push queues a request.
func (s *Source) push(r *Request) {
	s.pending.Push(r, &r.link)
	if !s.link.Linked() {
		s.queue.line.Push(s, &s.link)
	}
}

// remove removes a request that is not to be sent.
func (s *Source) remove(r *Request) {
	s.pending.Remove(&r.link)
	s.rest()
}

// rest removes the source from the queue's line if nothing waits to be sent.
func (s *Source) rest() {
	if s.pending.First() == nil {
		s.queue.line.Remove(&s.link)
		s.claim.Cancel()
	}
}

// choose selects the allowance for the next read.
func (s *Source) choose() {
	a := &s.quick
	if s.slowTill > s.queue.cfg.Shard.Now() {
		a = &s.slow
	}
	if a != s.from {
		s.claim.Cancel()
		s.from = a
	}
}

// take takes room for the data of a read. It reports whether there is room; if not, the source waits.
func (s *Source) take(length int) bool {
	if s.granted < length {
		s.returnGrant() // the next request for bytes covers this read and those after it
		s.choose()
		wanted := s.wanted()
		if s.granted = s.from.Take(&s.claim, length, wanted); s.granted == 0 {
			wanted = s.from.Budget().Portion(length, wanted)
			s.from.Wait(&s.claim, &s.queue.slot, wanted, wanted)
			return false
		}
	}
	s.granted -= length
	return true
}

// maxGrant bounds the bytes that are taken from the budget at a time; a single command may need more.
const maxGrant = 128 << 10

// returnGrant gives back the bytes that no command used.
func (s *Source) returnGrant() {
	if s.granted > 0 {
		s.from.Return(s.granted)
		s.granted = 0
	}
}

// wanted returns the number of bytes of the waiting reads, up to about maxGrant.
func (s *Source) wanted() (n int) {
	for r := s.pending.First(); r != nil && n < maxGrant; r = r.link.Next() {
		if !r.writes() {
			n += r.total()
		}
	}
	return n
}

// lend notes the bytes that a command has taken of the budget.
func (s *Source) lend(at *hostSlot, n int) {
	at.admitted, at.budget = n, s.from.Budget()
	if s.lent++; s.lent == 1 {
		s.queue.cfg.Shard.Lend(&s.claim)
	}
}

// giveBack gives back the bytes that a command has taken.
func (s *Source) giveBack(at *hostSlot) {
	b, n := at.budget, at.admitted
	at.admitted, at.budget = 0, nil
	if s.lent--; s.lent == 0 {
		s.queue.cfg.Shard.Returned(&s.claim)
	}
	b.Give(n)
}

// reclaim gives back the bytes taken by reads that are late while others wait. Their data may still arrive, but slowly:
// otherwise it would have arrived by now.
func (s *Source) reclaim(from *shard.Budget, _ int64) {
	own, now := &s.quick, s.queue.cfg.Shard.Now()
	if own.Budget() != from {
		own = &s.slow
	}
	for i := range s.queue.slots {
		at := &s.queue.slots[i]
		if at.budget != from || at.source != s || at.sentAt > now-int64(sourceTimeout) {
			continue
		}
		if !own.AwaitedBeside(&s.claim) {
			return
		}
		s.slowTill = now + int64(slowFor)
		s.giveBack(at)
		if s.claim.Waiting() {
			s.choose()
			s.queue.slot.Flush()
		}
	}
}
