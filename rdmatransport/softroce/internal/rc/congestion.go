package rc

import "github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"

const (
	firstWindow   = 64 << 10
	leastWindow   = 16 << 10
	defaultWindow = 512 << 10
)

// congestion bounds the bytes in flight of one kind: additive increase while
// round trips stay short, multiplicative decrease on loss, in proportion to it where
// that is known. Receive buffers and
// the kernel's queues on the way (a thousand packets a processor) overflow
// without a sound, so it starts small.
type congestion struct {
	window, limit int // bytes
	threshold     int
	limited       bool     // the window has held something back since the last arrival
	recover       wire.PSN // losses before it belong to the last decrease
	reduced       bool
	meter         lossMeter
}

func (c *congestion) connect(limit int) {
	c.limit = limit
	if limit == 0 {
		c.limit = defaultWindow
	}
	c.window, c.threshold = min(firstWindow, c.limit), c.limit
}

// allows reports whether more bytes may join those in flight. One packet or
// piece always may.
func (c *congestion) allows(flying, more int) bool {
	if flying == 0 || flying+more <= c.window {
		return true
	}
	c.limited = true
	return false
}

// arrived takes the bytes that have reached the other side.
func (c *congestion) arrived(bytes, mtu int, crowded bool) {
	if !c.limited || crowded || bytes <= 0 {
		return
	}
	c.limited = false
	if c.window < c.threshold {
		c.window += bytes
	} else {
		c.window += max(1, mtu*bytes/c.window)
	}
	c.window = min(c.window, c.limit)
}

// lost halves the window, once for all losses between first, the packet missed,
// and next, the first not sent.
func (c *congestion) lost(first, next wire.PSN) {
	if c.reduced && first.Before(c.recover) {
		return
	}
	c.reduced, c.recover = true, next
	c.threshold = max(c.window/2, leastWindow)
	c.window = c.threshold
}

// missed is for losses that were measured: it takes away half of the share lost
// beyond what is borne, once for all losses of a round trip.
func (c *congestion) missed(first, next wire.PSN) {
	excess := c.meter.excess()
	if excess == 0 || c.reduced && first.Before(c.recover) {
		return
	}
	c.reduced, c.recover = true, next
	c.window = max(int(float64(c.window)*(1-excess/2)), leastWindow)
	if excess > lossTolerance {
		c.threshold = c.window
	}
}

// shrink takes the window down to what a reduced rate needs: more would only queue.
func (c *congestion) shrink(bytes int) {
	c.window = max(leastWindow, min(c.window, bytes))
}

// passed takes the acknowledged edge.
func (c *congestion) passed(psn wire.PSN) {
	if c.reduced && !psn.Before(c.recover) {
		c.reduced = false
	}
}
