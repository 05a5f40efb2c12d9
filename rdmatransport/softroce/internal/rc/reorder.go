package rc

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// maxHeldPerQP is the maximum number of packets that one direction of a queue pair may keep.
const maxHeldPerQP = 256

// Store provides buffers for out-of-order packets to all queue pairs of a shard. It allocates them as needed, up to
// its limit, and reuses them.
//
// When all buffers are in use, a peer that has fewer requests in the store takes one from the peer that has most, and
// there from the queue pair that has most. Queue pairs whose gap stays open come first. So a peer that sends packets
// that cannot be executed, and never the missing one, cannot keep buffers that others need, however many queue pairs
// it has. The queue pairs of one peer share its buffers by the same rule.
type Store struct {
	Limit int // packets
	lent  int
	free  []*held
	peers []*keeper // peers that keep requests
	spare *keeper
}

// A keeper is a peer with the queue pairs that keep its requests.
type keeper struct {
	at      netip.Prefix
	holders []*reorder
}

// heaviest returns the queue pair with the greatest weight, that weight, and the total of the peer. Packets after a
// gap that stays open weigh more than all that others can have.
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

// maxFree is the number of free buffers that are kept when none is in use: the size of one burst of losses.
const maxFree = 2 * maxHeldPerQP

// idleGap is the time after which an open gap makes its packets the first to be dropped. It is longer than any
// retransmission takes.
const idleGap = time.Second

// held is a kept packet, with its own copy of the payload.
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

// makeRoom frees a buffer for another queue pair, and reports whether it could.
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
	last := len(from.list) - 1 // it is needed last, and will be retransmitted
	s.giveBack(from.list[last])
	from.list[last] = nil
	from.list = from.list[:last]
	from.left()
	other.counters.StoreTaken++
	return true
}

// Lent returns the number of packets kept.
func (s *Store) Lent() int { return s.lent }

// reorder keeps the out-of-order packets of one direction, ordered by PSN, without duplicates.
type reorder struct {
	store    *Store
	counters *Counters
	list     []*held
	peer     netip.Prefix  // that sends the packets
	keeper   *keeper       // of the peer, while it keeps requests; else nil
	requests bool          // the packets are requests, not responses
	moved    time.Duration // when the first packet was kept, or one was last taken
}

// keep stores a copy of p. It returns false if there is no room.
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

// next removes and returns the packet with that PSN, and drops older ones. The caller returns it to the store.
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

// first returns the lowest PSN kept.
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

// left updates the keeper after a packet was removed.
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

// drop removes one from a list without keeping its order.
func drop[T comparable](list []T, one T) []T {
	i, last := slices.Index(list, one), len(list)-1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}

// A needless NAK, like a READ requested twice, makes a Linux host lose its controller. So the window for foreign
// peers is as long as a processor on the path may pause with a packet in its queue while other packets overtake it. A
// packet that is really lost costs those peers a longer timeout anyway if nothing follows it.
const (
	firstReorderWindow = 10 * time.Millisecond
	maxReorderWindow   = 40 * time.Millisecond
)

// reorderWindow is how long a gap to a foreign peer may stay open before it counts as loss, since an early NAK harms
// such a peer. It adapts to the delay of reordered packets. A softroce peer is notified of a gap at once (sack.go).
type reorderWindow struct {
	length time.Duration
	since  time.Duration
	open   bool
	acted  bool // the gap has been treated as a loss
}

func (w *reorderWindow) connect() { w.length = firstReorderWindow }

func (w *reorderWindow) opened(now time.Duration) {
	if !w.open {
		w.open, w.since, w.acted = true, now, false
	}
}

// closed ends the gap. If no loss was assumed, its length sets the window for the next one.
func (w *reorderWindow) closed(now time.Duration) {
	if w.open && !w.acted {
		late := now - w.since
		w.length = min(maxReorderWindow, max(firstReorderWindow, 2*late, w.length-w.length/16))
	}
	w.open, w.acted = false, false
}
