package rc

import (
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// maxHeldPerQP bounds, in packets, what one direction of a queue pair may keep.
const maxHeldPerQP = 256

// Store lends buffers for packets that arrived before their turn to all queue
// pairs of a shard. It allocates as loss demands, up to its limit, and reuses.
//
// When all are lent a queue pair that has fewer gets one of the queue pair that has most
// requests, and first of all of one whose gap nobody closes: peers that send what cannot be
// executed, and never what is missing, keep from others no more than those leave.
type Store struct {
	Limit   int // packets
	lent    int
	free    []*held
	holders []*reorder // of requests, those that keep any
}

// maxFree is how many buffers stay when none is lent: what one burst of losses takes.
const maxFree = 2 * maxHeldPerQP

// idleGap is how long a gap may stay as it is before its packets count for less than all
// others: longer than any retransmission takes.
const idleGap = time.Second

// held is one packet kept, with its own copy of the payload.
type held struct {
	pkt wire.Packet
	buf []byte
}

func (s *Store) lend(p *wire.Packet) *held {
	if s.lent >= s.Limit {
		return nil
	}
	s.lent++
	var h *held
	if n := len(s.free); n > 0 {
		h = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		h = new(held)
	}
	h.pkt = *p
	h.buf = append(h.buf[:0], p.Payload...)
	h.pkt.Payload = h.buf
	return h
}

func (s *Store) giveBack(h *held) {
	s.lent--
	h.pkt = wire.Packet{}
	s.free = append(s.free, h)
	if s.lent == 0 && len(s.free) > maxFree {
		clear(s.free[maxFree:])
		s.free = s.free[:maxFree]
	}
}

// makeRoom takes back a packet for another queue pair, and reports whether there was one.
func (s *Store) makeRoom(now time.Duration, other *reorder) bool {
	var from *reorder
	most := len(other.list) + 1
	for _, r := range s.holders {
		n := len(r.list)
		if now-r.moved > idleGap {
			n += maxHeldPerQP
		}
		if n > most {
			from, most = r, n
		}
	}
	if from == nil || from == other {
		return false
	}
	last := len(from.list) - 1 // it is needed last, and sent again when its turn comes
	s.giveBack(from.list[last])
	from.list[last] = nil
	from.list = from.list[:last]
	from.left()
	return true
}

// Lent is the number of packets kept now.
func (s *Store) Lent() int { return s.lent }

// reorder keeps the packets of one direction that are ahead of their turn,
// ordered by PSN, without duplicates.
type reorder struct {
	store    *Store
	list     []*held
	requests bool          // of the peer
	moved    time.Duration // when the first was kept, or one had its turn
}

// keep stores a copy of p; false means there was no room.
func (r *reorder) keep(now time.Duration, p *wire.Packet) bool {
	i := len(r.list)
	for i > 0 && r.list[i-1].pkt.PSN.Diff(p.PSN) >= 0 {
		i--
	}
	if i < len(r.list) && r.list[i].pkt.PSN == p.PSN {
		return true
	}
	if len(r.list) >= maxHeldPerQP {
		return false
	}
	h := r.store.lend(p)
	if h == nil && r.store.makeRoom(now, r) {
		h = r.store.lend(p)
	}
	if h == nil {
		return false
	}
	if len(r.list) == 0 {
		r.moved = now
		if r.requests {
			r.store.holders = append(r.store.holders, r)
		}
	}
	r.list = append(r.list, nil)
	copy(r.list[i+1:], r.list[i:])
	r.list[i] = h
	return true
}

// next removes and returns the packet with that PSN, dropping older ones. The
// caller gives it back to the store.
func (r *reorder) next(now time.Duration, psn wire.PSN) *held {
	for len(r.list) > 0 {
		h := r.list[0]
		d := h.pkt.PSN.Diff(psn)
		if d > 0 {
			return nil
		}
		copy(r.list, r.list[1:])
		r.list[len(r.list)-1] = nil
		r.list = r.list[:len(r.list)-1]
		r.moved = now
		r.left()
		if d == 0 {
			return h
		}
		r.store.giveBack(h)
	}
	return nil
}

// first is the lowest PSN kept.
func (r *reorder) first() (wire.PSN, bool) {
	if len(r.list) == 0 {
		return 0, false
	}
	return r.list[0].pkt.PSN, true
}

func (r *reorder) clear() {
	for i, h := range r.list {
		r.store.giveBack(h)
		r.list[i] = nil
	}
	if len(r.list) > 0 {
		r.list = r.list[:0]
		r.left()
	}
}

// left is called when a packet was taken out.
func (r *reorder) left() {
	if len(r.list) > 0 || !r.requests {
		return
	}
	s := r.store
	i, last := slices.Index(s.holders, r), len(s.holders)-1
	s.holders[i], s.holders[last] = s.holders[last], nil
	s.holders = s.holders[:last]
}

// A needless NAK costs a Linux host its controller, as does a READ requested twice,
// so the window for foreign peers is as long as a processor on the way may pause with
// a packet in its queue while others go round it. One that is truly lost costs them
// a timer of more than that anyway where nothing follows it.
const (
	firstReorderWindow = 10 * time.Millisecond
	maxReorderWindow   = 40 * time.Millisecond
)

// reorderWindow is how long a gap may stay open before it counts as loss, where the
// peer is foreign: an early NAK harms it. It adapts to how late packets that only
// changed places have come. Our own kind is notified of a gap at once (sack.go).
type reorderWindow struct {
	length time.Duration
	since  time.Duration
	open   bool
	acted  bool // the loss of this gap has been acted upon
}

func (w *reorderWindow) connect() { w.length = firstReorderWindow }

func (w *reorderWindow) opened(now time.Duration) {
	if !w.open {
		w.open, w.since, w.acted = true, now, false
	}
}

// closed ends the gap. One that closed by itself says how long to wait for the next.
func (w *reorderWindow) closed(now time.Duration) {
	if w.open && !w.acted {
		late := now - w.since
		w.length = min(maxReorderWindow, max(firstReorderWindow, 2*late, w.length-w.length/16))
	}
	w.open, w.acted = false, false
}
