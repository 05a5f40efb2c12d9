package shard

// A Budget bounds the bytes that all queues of a shard let their peers send at
// one time: reads that a target has asked for, or data of read commands that a
// host has sent. More would overflow the shard's receive buffer, silently.
type Budget struct {
	limit   int // 0: no bound
	used    int
	waiting []*Claim
}

// A Claim is one consumer's place in the queue for a budget.
type Claim struct {
	slot   *Slot
	bytes  int
	queued bool
}

// Limit is the budget in bytes, 0 without bound.
func (b *Budget) Limit() int { return b.limit }

// Used is how many bytes are taken.
func (b *Budget) Used() int { return b.used }

// Take takes n bytes for a consumer. When they do not fit, or others wait, the
// claim is queued and the slot's Retry called when it is worth trying again,
// with the same claim and no more bytes. An amount beyond the limit is granted
// when nothing else is taken.
func (b *Budget) Take(c *Claim, slot *Slot, n int) bool {
	if b.limit == 0 {
		return true
	}
	first := len(b.waiting) == 0 || b.waiting[0] == c
	if first && b.fits(n) {
		b.used += n
		if c.queued {
			b.drop(c)
			b.prompt()
		}
		return true
	}
	c.slot, c.bytes = slot, n
	if !c.queued {
		c.queued = true
		b.waiting = append(b.waiting, c)
	}
	return false
}

func (b *Budget) fits(n int) bool { return b.used == 0 || n <= b.limit-b.used }

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
	if c.queued {
		b.drop(c)
		b.prompt()
	}
}

// prompt tells the first in the queue that its claim fits.
func (b *Budget) prompt() {
	if len(b.waiting) > 0 && b.fits(b.waiting[0].bytes) {
		b.waiting[0].slot.Retry()
	}
}

func (b *Budget) drop(c *Claim) {
	c.queued = false
	for i, w := range b.waiting {
		if w == c {
			copy(b.waiting[i:], b.waiting[i+1:])
			b.waiting[len(b.waiting)-1] = nil
			b.waiting = b.waiting[:len(b.waiting)-1]
			return
		}
	}
}
