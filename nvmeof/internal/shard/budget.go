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
// What one consumer's peer does not deliver for a while is no reason for others to wait:
// see Lend and reclaim.
type Budget struct {
	shard    *Shard
	urging   Timer // runs while claims wait
	limit    int   // 0: no bound
	used     int
	promised int              // bytes of the claims that were called
	claims   list.List[Claim] // in order of arrival; those that were called come first, up to reported
	reported *Claim           // the last that was called
}

// A Claim is one consumer's place in the queue for a budget.
type Claim struct {
	// Peer is whom the consumer takes for.
	Peer netip.Addr
	// Reclaim gives back what the consumer took of a budget before that time, which then
	// counts no more, although it may still arrive. It is called when others wait. Set it
	// before Lend.
	Reclaim func(b *Budget, before int64)

	lent   list.Link[Claim]
	slot   *Slot
	bytes  int
	called bool // its slot was notified that there is room
	link   list.Link[Claim]
}

func (b *Budget) open(s *Shard, limit int) {
	b.shard, b.limit = s, limit
	b.urging.Func = b.reclaim
}

// Waiting reports whether the claim is in the queue of a budget.
func (c *Claim) Waiting() bool { return c.link.Linked() }

// Limit is the budget in bytes, 0 without bound.
func (b *Budget) Limit() int { return b.limit }

// Used is how many bytes are taken.
func (b *Budget) Used() int { return b.used }

// Take takes least to most bytes for a consumer and returns how many. When not even
// least fit, or others wait, it returns 0, the claim is queued, and the slot's Retry
// called when there is room for most, to try again with the same claim. Taking for
// many commands at a time is what keeps the memory of a queue, one of thousands, in
// the processor's cache. An amount beyond the limit is granted when nothing else is
// taken, and otherwise no more than a quarter of it if least is less.
func (b *Budget) Take(c *Claim, slot *Slot, least, most int) int {
	if b.limit == 0 {
		return most
	}
	most = max(least, min(most, b.limit/4)) // so that others move on meanwhile
	if c.called && least > c.bytes {
		b.Cancel(c) // not what was promised: to the end of the queue
	}
	n := b.grant(c, least, most)
	switch {
	case n > 0:
		b.used += n
		if c.link.Linked() {
			b.drop(c)
			b.prompt()
		}
	case !c.link.Linked():
		c.slot, c.bytes = slot, most
		b.claims.Push(c, &c.link)
		b.await()
	case !c.called:
		c.bytes = max(c.bytes, most)
	}
	return n
}

func (b *Budget) grant(c *Claim, least, most int) int {
	room := b.limit - b.used
	if c.called {
		room = min(room, c.bytes)
	} else if first := b.claims.First(); first != nil && first != c {
		return 0
	}
	switch {
	case least <= room:
		return min(most, room)
	case b.used == 0:
		return least
	}
	return 0
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
	if b.shard != nil && !b.urging.Running() {
		b.shard.SetTimer(&b.urging, deliveryTimeout)
	}
}

// reclaim asks those who have taken something for what their peers have not delivered in
// time, if others than those peers wait.
func (b *Budget) reclaim() {
	if b.claims.First() == nil {
		return
	}
	before := b.shard.now - int64(deliveryTimeout)
	for c := b.shard.lent.First(); c != nil; {
		next := c.lent.Next()
		if b.awaitedBeside(c.Peer) {
			c.Reclaim(b, before)
		}
		c = next
	}
	if b.claims.First() != nil {
		b.await()
	}
}

// awaitedBeside reports whether a claim for another peer waits.
func (b *Budget) awaitedBeside(peer netip.Addr) bool {
	for c := b.claims.First(); c != nil; c = c.link.Next() {
		if c.Peer != peer {
			return true
		}
	}
	return false
}

// Give returns n bytes.
func (b *Budget) Give(n int) {
	if b.limit == 0 {
		return
	}
	b.used -= n
	b.prompt()
}

// Cancel takes the claim out of the queue, if it is there.
func (b *Budget) Cancel(c *Claim) {
	if c.link.Linked() {
		b.drop(c)
		b.prompt()
	}
}

// prompt tells as many in the queue as there is room for, so that they try again
// in one turn.
func (b *Budget) prompt() {
	next := b.claims.First()
	if b.reported != nil {
		next = b.reported.link.Next()
	}
	for ; next != nil; next = next.link.Next() {
		if taken := b.used + b.promised; taken > 0 && next.bytes > b.limit-taken {
			return
		}
		next.called = true
		b.promised += next.bytes
		b.reported = next
		next.slot.Retry()
	}
}

func (b *Budget) drop(c *Claim) {
	if c.called {
		b.promised -= c.bytes
	}
	if b.reported == c {
		b.reported = c.link.Prev()
	}
	b.claims.Remove(&c.link)
	c.called = false
}
