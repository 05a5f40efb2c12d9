package shard

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A Budget bounds the bytes that all queues of a shard let their peers send at
// one time: reads that a target has asked for, or data of read commands that a
// host has sent. More would overflow the shard's receive buffer, silently.
//
// Parties take of it through an [Allowance] each. Nothing is kept for those who want nothing:
// a party alone may take all. As soon as one has to wait what comes back is granted
// to each party in turn, by bytes (deficit round robin), and within a party to each consumer
// in turn, so that neither the number of a party's queues nor how much they have outstanding
// decides what it gets.
//
// What one consumer's peer does not deliver for a while is no reason for others to wait:
// see Lend and reclaim.
type Budget struct {
	shard  *Shard
	urging Timer // runs while claims wait
	limit  int   // 0: no bound
	turn   int   // what a party is granted in its turn
	used   int
	own    Allowance            // of consumers that belong to no party
	line   list.List[Allowance] // those with claims that wait, in the order of their turns
}

// An Allowance is one party's part in a budget. It is part of whatever stands for the party,
// and must not be copied once it is open.
type Allowance struct {
	budget *Budget
	credit int              // bytes that it may still be granted in its turn
	claims list.List[Claim] // those that wait, in the order of their turns
	link   list.Link[Allowance]
}

// A Claim is one consumer's place in a party's queue for a budget.
type Claim struct {
	// Peer is whom the consumer takes for.
	Peer netip.Addr
	// Reclaim gives back what the consumer took of a budget before that time, which then
	// counts no more, although it may still arrive. It is called while others wait. Set it
	// before Lend.
	Reclaim func(b *Budget, before int64)

	lent      list.Link[Claim]
	slot      *Slot
	allowance *Allowance // in whose queue it is, or was last
	piece     int        // bytes that are granted at a time
	most      int
	granted   int // bytes, to be fetched by Take
	link      list.Link[Claim]
}

func (b *Budget) open(s *Shard, limit int) {
	b.shard, b.limit = s, limit
	b.turn = max(PageSize, min(turnBytes, limit/4))
	b.own.Open(b)
	b.urging.Func = b.reclaim
}

// Open makes it a part of a budget, of which nothing is taken.
func (a *Allowance) Open(b *Budget) { *a = Allowance{budget: b} }

// Own is the part of consumers that belong to no party.
func (b *Budget) Own() *Allowance { return &b.own }

// Budget is what the allowance is a part of.
func (a *Allowance) Budget() *Budget { return a.budget }

// Waiting reports whether the claim is in the queue of a budget.
func (c *Claim) Waiting() bool { return c.link.Linked() }

// Granted is how many bytes the claim was granted that Take has not fetched.
func (c *Claim) Granted() int { return c.granted }

// Limit is the budget in bytes, 0 without bound.
func (b *Budget) Limit() int { return b.limit }

// Used is how many bytes are taken, or granted.
func (b *Budget) Used() int { return b.used }

// Take takes least to most bytes for a consumer and returns how many: all that was granted to
// the claim if it has waited, and else what there is room for if nobody waits. It returns 0 when
// that is not even least; the consumer then calls Wait. Taking for many commands at a time is
// what keeps the memory of a queue, one of thousands, in the processor's cache. An amount
// beyond the limit is taken when nothing else is, and otherwise no more than a
// quarter of it if least is less.
func (a *Allowance) Take(c *Claim, least, most int) int {
	b := a.budget
	if b.limit == 0 {
		return most
	}
	if n := c.granted; n > 0 {
		if n >= least {
			c.granted = 0
		}
		c.Cancel()
		if n >= least {
			return n
		}
	}
	if b.line.First() != nil {
		return 0
	}
	room := b.limit - b.used
	if least > room {
		if b.used > 0 {
			return 0
		}
		room = least
	}
	n := min(b.Portion(least, most), room)
	b.used += n
	return n
}

// Portion is how much of most bytes is taken at a time, so that others move on meanwhile.
func (b *Budget) Portion(least, most int) int { return max(least, min(most, b.limit/4)) }

// Wait queues the claim for most bytes in pieces, after a Take that failed. The slot's
// Retry is called when a piece was granted, to take what the claim has by then. A claim that
// waits already keeps its place.
func (a *Allowance) Wait(c *Claim, slot *Slot, piece, most int) {
	if c.allowance != a || c.granted > 0 {
		c.Cancel() // what it has is less than one piece
	}
	b := a.budget
	c.slot, c.allowance, c.piece, c.most = slot, a, piece, most
	if !c.link.Linked() {
		a.claims.Push(c, &c.link)
	}
	if !a.link.Linked() {
		a.credit = b.turn
		b.line.Push(a, &a.link)
	}
	b.serve()
	b.await()
}

// serve grants what there is room for.
func (b *Budget) serve() {
	for a := b.line.First(); a != nil; a = b.line.First() {
		c := a.claims.First()
		n := min(c.piece, c.most-c.granted)
		if b.used > 0 && n > b.limit-b.used {
			return // nor does anything smaller pass: it would take the room each time
		}
		if n > a.credit {
			a.credit += b.turn
			b.line.Remove(&a.link)
			b.line.Push(a, &a.link)
			continue
		}
		a.credit -= n
		b.used += n
		if c.granted += n; c.granted == c.most {
			a.drop(c)
		} else {
			a.claims.Remove(&c.link)
			a.claims.Push(c, &c.link)
		}
		c.slot.Retry()
	}
}

// drop takes a claim out of the queue.
func (a *Allowance) drop(c *Claim) {
	a.claims.Remove(&c.link)
	if a.claims.First() == nil {
		a.budget.line.Remove(&a.link)
	}
}

// Cancel takes the claim out of the queue, if it is there, and gives back what it was granted.
func (c *Claim) Cancel() {
	a, waited := c.allowance, c.link.Linked()
	if waited {
		a.drop(c)
	}
	if n := c.granted; n > 0 {
		c.granted = 0
		a.Return(n)
	} else if waited {
		a.budget.serve() // there may be room for less than it wanted
	}
}

// Give returns n bytes.
func (b *Budget) Give(n int) {
	if b.limit == 0 {
		return
	}
	b.used -= n
	b.serve()
}

// Return returns n bytes of which no use was made: the party is granted others for them.
func (a *Allowance) Return(n int) {
	if a.link.Linked() {
		a.credit += n
	}
	a.budget.Give(n)
}

// deliveryTimeout is for how long what was taken counts while others wait. What is on
// its way to this shard arrives in less within a data center; where it takes longer, less
// arrives at a time than was taken.
const deliveryTimeout = 5 * time.Millisecond

// Lend notes that a consumer has taken something of a budget, until Returned.
func (s *Shard) Lend(c *Claim) { s.lent.Push(c, &c.lent) }

// Returned notes that the consumer has given everything back.
func (s *Shard) Returned(c *Claim) { s.lent.Remove(&c.lent) }

// await has those asked who took something, if others still wait for it then.
func (b *Budget) await() {
	if b.shard != nil && b.line.First() != nil && !b.urging.Running() {
		b.shard.SetTimer(&b.urging, deliveryTimeout)
	}
}

// reclaim asks those who have taken something for what their peers have not delivered in
// time.
func (b *Budget) reclaim() {
	if b.line.First() == nil {
		return
	}
	before := b.shard.now - int64(deliveryTimeout)
	for c := b.shard.lent.First(); c != nil; {
		next := c.lent.Next()
		c.Reclaim(b, before)
		c = next
	}
	b.await()
}

// AwaitedBeside reports whether another party waits for the budget, or one of the same party
// that takes for another peer than the claim's.
func (a *Allowance) AwaitedBeside(c *Claim) bool {
	first := a.budget.line.First()
	if first == nil || first != a || first.link.Next() != nil {
		return first != nil
	}
	for o := a.claims.First(); o != nil; o = o.link.Next() {
		if o.Peer != c.Peer {
			return true
		}
	}
	return false
}
