package shard

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A Budget bounds the bytes that the peers of all queues of a shard may send at one time: the data of RDMA READs that a
// target has posted, or of read commands that a host has sent. More than that could overflow the shard's receive buffer
// without an error.
//
// Each party takes bytes through its own [Allowance]. Nothing is reserved for idle parties: a single active party may
// take everything. As soon as one has to wait, returned bytes are granted to the waiting parties in turn, by bytes
// (deficit round robin), and within a party to its consumers in turn. So neither the number of a party's queues nor the
// number of its outstanding bytes determines its part.
//
// Bytes that a consumer's peer does not deliver in time do not hold up the others: see Lend and reclaim.
type Budget struct {
	shard  *Shard
	urging Timer // runs while claims wait
	limit  int   // 0: unlimited
	turn   int   // bytes that a party is granted per turn
	used   int
	own    Allowance            // for consumers that belong to no party
	line   list.List[Allowance] // allowances with waiting claims, in the order of their turns
}

// An Allowance is one party's access to a budget. It is embedded in the party's own structure and must not be copied
// once it is open.
type Allowance struct {
	budget *Budget
	credit int              // bytes that it may still be granted in its turn
	claims list.List[Claim] // waiting claims, in the order of their turns
	link   list.Link[Allowance]
}

// A Claim is one consumer's request for bytes of a budget.
type Claim struct {
	// Peer is the address of the peer that will send the bytes.
	Peer netip.Addr
	// Reclaim returns to b the bytes that the consumer took before that time. They no longer count, although they may
	// still arrive. It is called while others wait. Set it before Lend.
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

// Open makes a an allowance of b from which nothing is taken.
func (a *Allowance) Open(b *Budget) { *a = Allowance{budget: b} }

// Own returns the allowance for consumers that belong to no party.
func (b *Budget) Own() *Allowance { return &b.own }

// Budget returns the budget of the allowance.
func (a *Allowance) Budget() *Budget { return a.budget }

// Waiting reports whether the claim is queued.
func (c *Claim) Waiting() bool { return c.link.Linked() }

// Granted returns the number of bytes that the claim was granted and that Take has not fetched.
func (c *Claim) Granted() int { return c.granted }

// Limit returns the size of the budget in bytes; 0 means unlimited.
func (b *Budget) Limit() int { return b.limit }

// Used returns the number of bytes that are taken or granted.
func (b *Budget) Used() int { return b.used }

// Take takes least to most bytes for a consumer and returns how many it took. After a Wait it takes all bytes that the
// claim was granted; otherwise it takes what is free, if no claim waits. It returns 0 if fewer than least bytes are
// available; the consumer then calls Wait.
//
// Take takes no more than a quarter of the limit at a time, or least if that is more. If least exceeds the limit, it is
// taken when nothing else is. Taking bytes for many commands in one call keeps a queue's memory in the processor's
// cache where there are thousands of queues.
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

// Portion returns how much of most bytes Take takes at a time, so that other consumers are served too.
func (b *Budget) Portion(least, most int) int { return max(least, min(most, b.limit/4)) }

// Wait queues the claim for most bytes, granted in pieces, after a Take that returned 0. The slot's Retry is called
// when a piece was granted; it then takes what the claim has. A claim that is already queued keeps its place.
func (a *Allowance) Wait(c *Claim, slot *Slot, piece, most int) {
	if c.allowance != a || c.granted > 0 {
		c.Cancel() // the claim was granted less than one piece
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

// serve grants the free bytes to the waiting claims.
func (b *Budget) serve() {
	for a := b.line.First(); a != nil; a = b.line.First() {
		c := a.claims.First()
		n := min(c.piece, c.most-c.granted)
		if b.used > 0 && n > b.limit-b.used {
			return // nor may a smaller claim go first: it would take the room each time
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

// drop removes a claim from the queue.
func (a *Allowance) drop(c *Claim) {
	a.claims.Remove(&c.link)
	if a.claims.First() == nil {
		a.budget.line.Remove(&a.link)
	}
}

// Cancel removes the claim from the queue, if it is queued, and returns the bytes that it was granted.
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

// Give returns n bytes to the budget.
func (b *Budget) Give(n int) {
	if b.limit == 0 {
		return
	}
	b.used -= n
	b.serve()
}

// Return returns n unused bytes: the party may be granted others for them in the same turn.
func (a *Allowance) Return(n int) {
	if a.link.Linked() {
		a.credit += n
	}
	a.budget.Give(n)
}

// deliveryTimeout is how long taken bytes count while others wait. Within a data center data arrives sooner. On a
// slower path less data arrives at a time than was taken, so not counting it is safe.
const deliveryTimeout = 5 * time.Millisecond

// Lend notes that a consumer has taken bytes of a budget, until Returned.
func (s *Shard) Lend(c *Claim) { s.lent.Push(c, &c.lent) }

// Returned notes that the consumer has given back all bytes.
func (s *Shard) Returned(c *Claim) { s.lent.Remove(&c.lent) }

// await starts the timer that calls reclaim, if claims wait.
func (b *Budget) await() {
	if b.shard != nil && b.line.First() != nil && !b.urging.Running() {
		b.shard.SetTimer(&b.urging, deliveryTimeout)
	}
}

// reclaim makes the consumers give back the bytes that their peers have not delivered in time.
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

// AwaitedBeside reports whether the budget is awaited by another party, or by a claim of the same party for another
// peer than c's.
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
