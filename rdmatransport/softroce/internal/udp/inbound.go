package udp

import (
	"math/bits"
	"net/netip"
	"time"
)

// arrival is a packet of the in-memory network that is in flight to a port.
type arrival struct {
	at      time.Duration // time of arrival, on the network's clock
	seq     uint64        // breaks ties
	from    netip.AddrPort
	segment int32 // index in the send
	tos     uint8
	data    []byte
}

func (a *arrival) before(b *arrival) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// inbound holds the packets in flight to one port: a heap by time of arrival, and those held back to be reordered.
type inbound struct {
	heap []arrival
	held []heldArrival
}

type heldArrival struct {
	arrival
	key    flowKey
	passes int           // number of packets that still have to overtake it
	until  time.Duration // time of arrival if they do not come
}

func (q *inbound) hold(a arrival, key flowKey, passes int, wait time.Duration) {
	q.held = append(q.held, heldArrival{a, key, passes, a.at + wait})
}

// passed tells held packets that a packet of their direction arrives at the given time. Those that have been
// overtaken by enough packets arrive right after it.
func (q *inbound) passed(key flowKey, at time.Duration, seq *uint64) {
	q.release(func(h *heldArrival) bool {
		if h.key == key {
			h.passes--
		}
		if h.passes > 0 {
			return false
		}
		*seq++
		h.at, h.seq = max(h.at, at), *seq
		return true
	})
}

// expire releases the packets that were held long enough.
func (q *inbound) expire(now time.Duration) {
	q.release(func(h *heldArrival) bool {
		if h.until > now {
			return false
		}
		h.at = h.until
		return true
	})
}

func (q *inbound) release(due func(*heldArrival) bool) {
	kept := q.held[:0]
	for i := range q.held {
		if h := &q.held[i]; due(h) {
			q.push(h.arrival)
		} else {
			kept = append(kept, *h)
		}
	}
	clear(q.held[len(kept):])
	q.held = kept
}

// next returns the time of the first arrival, and false if there is none.
func (q *inbound) next() (at time.Duration, ok bool) {
	if len(q.heap) > 0 {
		at, ok = q.heap[0].at, true
	}
	for i := range q.held {
		if until := q.held[i].until; !ok || until < at {
			at, ok = until, true
		}
	}
	return at, ok
}

func (q *inbound) push(a arrival) {
	h := append(q.heap, a)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	q.heap = h
}

// pop removes and returns the first arrival; there must be one.
func (q *inbound) pop() arrival {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], arrival{}
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	q.heap = h
	return first
}

// freeList keeps packet buffers by size class: class c has capacity 1<<c.
type freeList [17][][]byte

const minClass = 6

// take returns an empty slice with capacity for n bytes.
func (f *freeList) take(n int) []byte {
	c := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if last := len(f[c]) - 1; last >= 0 {
		b := f[c][last]
		f[c] = f[c][:last]
		return b[:0]
	}
	return make([]byte, 0, 1<<c)
}

// give returns a buffer and overwrites it, so that a use after this is noticed.
func (f *freeList) give(b []byte) {
	b = b[:cap(b)]
	b[0] = 0xa5
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	c := bits.Len(uint(cap(b))) - 1
	f[c] = append(f[c], b)
}
