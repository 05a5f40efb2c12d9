package rc

import "github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"

const (
	firstWindow   = 64 << 10
	leastWindow   = 16 << 10
	defaultWindow = 512 << 10
)

// congestion limits the bytes in flight of one kind. The window grows additively while round trips stay short, and
// shrinks multiplicatively on loss, in proportion to the loss where it is known. Receive buffers and the kernel's
// queues on the path (a thousand packets per processor) overflow silently, so the window starts small.
type congestion struct {
	window, limit int // bytes
	threshold     int
	limited       bool     // the window has delayed something since the last arrival
	recover       wire.PSN // losses before this PSN belong to the last decrease
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

// allows reports whether more bytes may be sent while flying bytes are in flight. A single packet or piece always
// may.
func (c *congestion) allows(flying, more int) bool {
	if flying == 0 || flying+more <= c.window {
		return true
	}
	c.limited = true
	return false
}

// arrived grows the window for bytes that have arrived.
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

// lost halves the window, once for all losses of a round trip: first is the lost packet, and next the first one not
// sent.
func (c *congestion) lost(first, next wire.PSN) {
	if c.reduced && first.Before(c.recover) {
		return
	}
	c.reduced, c.recover = true, next
	c.threshold = max(c.window/2, leastWindow)
	c.window = c.threshold
}

// missed is lost for measured losses. It shrinks the window by half of the loss rate beyond the tolerance, once for
// all losses of a round trip.
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

// shrink reduces the window to what a reduced rate needs: more would only build queues.
func (c *congestion) shrink(bytes int) {
	c.window = max(leastWindow, min(c.window, bytes))
}

// passed is called with each new acked.
func (c *congestion) passed(psn wire.PSN) {
	if c.reduced && !psn.Before(c.recover) {
		c.reduced = false
	}
}
