package rc

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// maxHeldPerQP bounds, in packets, what one direction of a queue pair may keep.
const maxHeldPerQP = 256

// Store lends buffers for packets that arrived before their turn to all queue
// pairs of a shard. It allocates as loss demands, up to its limit, and reuses.
//
// When all are lent a peer that has fewer gets one of the peer that has most requests, and there
// of the queue pair that has most, and first of all of those whose gaps nobody closes: who sends
// what cannot be executed, and never what is missing, keeps from others no more than those leave,
// however many queue pairs it has. Among the queue pairs of one peer it is the same.
type Store struct {
	Limit int // packets
	lent  int
	free  []*held
	peers []*keeper // those that keep any requests
	spare *keeper
}

// A keeper is a peer, with the queue pairs that keep its requests.
type keeper struct {
	at      netip.Prefix
	holders []*reorder
}

// heaviest returns the queue pair that has most, and what the peer has in all. Packets behind a
// gap that stays as it is weigh more than all that others can have.
func (k *keeper) heaviest(now time.Duration) (most *reorder, weight, all int) {
	for _, r := range k.holders {
		n := len(r.list)
		if now-r.moved > idleGap {
			n += maxHeldPerQP
		}
		if all += n; n > weight {
			most, weight = r, n
		}
	}
	return most, weight, all
}

func (s *Store) keeper(at netip.Prefix) *keeper {
	for _, k := range s.peers {
		if k.at == at {
			return k
		}
	}
	return nil
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
	own, most := len(other.list), 0
	var same *keeper
	if other.requests {
		same = s.keeper(other.peer)
	}
	if same != nil {
		_, _, own = same.heaviest(now)
	}
	for _, k := range s.peers {
		if r, _, n := k.heaviest(now); k != same && n > max(own+1, most) {
			from, most = r, n
		}
	}
	if from == nil && same != nil {
		if r, n, _ := same.heaviest(now); r != other && n > len(other.list)+1 {
			from = r
		}
	}
	if from == nil {
		return false
	}
	last := len(from.list) - 1 // it is needed last, and sent again when its turn comes
	s.giveBack(from.list[last])
	from.list[last] = nil
	from.list = from.list[:last]
	from.left()
	other.counters.StoreTaken++
	return true
}

// Lent is the number of packets kept now.
func (s *Store) Lent() int { return s.lent }

// reorder keeps the packets of one direction that are ahead of their turn,
// ordered by PSN, without duplicates.
type reorder struct {
	store    *Store
	counters *Counters
	list     []*held
	peer     netip.Prefix  // who sends them
	keeper   *keeper       // of the peer, while it keeps requests
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
			r.store.join(r)
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

func (s *Store) join(r *reorder) {
	k := s.keeper(r.peer)
	if k == nil {
		if k, s.spare = s.spare, nil; k == nil {
			k = new(keeper)
		}
		k.at = r.peer
		s.peers = append(s.peers, k)
	}
	k.holders, r.keeper = append(k.holders, r), k
}

// left is called when a packet was taken out.
func (r *reorder) left() {
	if len(r.list) > 0 || !r.requests {
		return
	}
	s, k := r.store, r.keeper
	r.keeper = nil
	if k.holders = drop(k.holders, r); len(k.holders) == 0 {
		s.peers, s.spare = drop(s.peers, k), k
	}
}

// drop removes one from a list that is in no order.
func drop[T comparable](list []T, one T) []T {
	i, last := slices.Index(list, one), len(list)-1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
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
