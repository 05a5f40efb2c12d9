package rc

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// Completions is the completion queue of a shard's queue pairs: a ring with at least one entry for each work request
// that can be posted.
type Completions struct {
	ring       []rdmatransport.Completion // length is a power of two
	head, tail uint32
	reserved   int
}

// leastRing is the minimum length of the ring.
const leastRing = 64

// Reserve makes room for n more outstanding work requests.
func (c *Completions) Reserve(n int) {
	c.reserved += n
	if c.reserved > len(c.ring) {
		c.resize(c.reserved)
	}
}

// resize gives the ring at least n entries.
func (c *Completions) resize(n int) {
	size := leastRing
	for size < n {
		size *= 2
	}
	ring := make([]rdmatransport.Completion, size)
	for i := c.head; i != c.tail; i++ {
		ring[i&uint32(size-1)] = c.ring[i&uint32(len(c.ring)-1)]
	}
	c.ring = ring
}

// Release releases a reservation and drops the completions of qpn. If shared is set, those of its receives are kept,
// as flushed ones.
func (c *Completions) Release(n int, qpn rdmatransport.QPN, shared bool) {
	c.reserved -= n
	keep := c.head
	for i := c.head; i != c.tail; i++ {
		e := c.ring[i&uint32(len(c.ring)-1)]
		receive := e.Op == rdmatransport.OpRecv || e.Op == rdmatransport.OpRecvWriteImm
		if e.QPN == qpn && shared && receive {
			c.ring[keep&uint32(len(c.ring)-1)] = rdmatransport.Completion{
				ID: e.ID, QPN: qpn, Op: rdmatransport.OpRecv, Status: rdmatransport.StatusFlushed,
			}
			keep++
		} else if e.QPN != qpn {
			c.ring[keep&uint32(len(c.ring)-1)] = e
			keep++
		}
	}
	c.tail = keep
	// The ring shrinks again after thousands of queue pairs are closed.
	if n := max(c.reserved, c.Len()); len(c.ring) > leastRing && n <= len(c.ring)/8 {
		c.resize(2 * n)
	}
}

// Drop drops all entries.
func (c *Completions) Drop() { c.head = c.tail }

// push adds an entry. The ring has room for every outstanding work request. It can be full only if a consumer keeps
// posting without polling: a completed request makes room for another one in its queue, and on a queue pair that has
// ended all requests complete at once.
func (c *Completions) push(e rdmatransport.Completion) {
	if c.Len() == len(c.ring) {
		c.resize(2 * len(c.ring))
	}
	c.ring[c.tail&uint32(len(c.ring)-1)] = e
	c.tail++
}

// Len returns the number of entries.
func (c *Completions) Len() int { return int(c.tail - c.head) }

// Poll moves the oldest entries to out and returns their number.
func (c *Completions) Poll(out []rdmatransport.Completion) int {
	n := 0
	for n < len(out) && c.head != c.tail {
		out[n] = c.ring[c.head&uint32(len(c.ring)-1)]
		c.head++
		n++
	}
	return n
}
