package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// boardSpan is the number of PSNs after acked that the scoreboard covers, more than the peer can hold.
const boardSpan = 2 * maxHeldPerQP

// psnSet is a set of PSNs that lie within boardSpan of each other.
type psnSet [boardSpan / 64]uint64

func (s *psnSet) has(p wire.PSN) bool { return s[p/64%wire.PSN(len(s))]>>(p%64)&1 != 0 }
func (s *psnSet) add(p wire.PSN)      { s[p/64%wire.PSN(len(s))] |= 1 << (p % 64) }
func (s *psnSet) drop(p wire.PSN)     { s[p/64%wire.PSN(len(s))] &^= 1 << (p % 64) }

func later(p, q wire.PSN) wire.PSN {
	if p.Before(q) {
		return q
	}
	return p
}

// repair is a retransmitted request packet.
type repair struct {
	psn   wire.PSN
	after wire.PSN // packets with this PSN or a later one were sent after the repair
	cost  int      // window weight
}

// board is the scoreboard of requests to a softroce peer, which reports the packets that it holds after a gap
// (sack.go). Loss is detected by the order of sending, as in RACK (RFC 8985) but without its timer: a packet is lost
// if one sent after it has arrived. Packets that were sent once went out in the order of PSNs, so those missing
// before edge are lost, except for repairs, which are listed in the order of sending. The cursor of Transmit never
// moves back.
type board struct {
	edge    wire.PSN // acked or later; missing packets before it are lost or repaired
	top     wire.PSN // one past the highest PSN that has arrived
	after   wire.PSN // repair.after of the latest repair that has arrived
	held    psnSet   // PSNs after acked that the peer holds
	again   psnSet   // PSNs in repairs
	repairs []repair
	active  bool // packets were missing when relocate last ran

	idx, off uint32 // position of the search for losses
}

// scoreboard returns the board, creating it at the first loss.
func (q *QP) scoreboard() *board {
	r := &q.req
	if r.board == nil {
		r.board = &board{edge: r.acked, top: r.acked, after: r.acked, idx: r.ackIdx}
	}
	return r.board
}

// missing reports whether request packets are missing before the newest one that arrived.
func (r *requester) missing() bool {
	return r.board != nil && (r.board.edge != r.acked || len(r.board.repairs) > 0)
}

// passed removes held PSNs when acked moves between the given PSNs.
func (b *board) passed(from, to wire.PSN) {
	if to.Diff(from) >= boardSpan {
		b.held = psnSet{}
		return
	}
	for p := from; p != to; p = p.Add(1) {
		b.held.drop(p)
	}
}

// proven marks as lost all missing packets that were sent before the latest repair that has arrived.
func (q *QP) proven() {
	b := q.req.board
	b.edge = later(b.edge, b.after)
	q.relocate()
}

// take records that the peer holds a packet, and reports whether that was not known.
func (b *board) take(psn wire.PSN) bool {
	if b.held.has(psn) {
		return false
	}
	b.held.add(psn)
	b.top = later(b.top, psn.Add(1))
	return true
}

// judge determines from what has arrived which repairs are lost, and how many bytes are in flight.
func (q *QP) judge() {
	r, b := &q.req, q.req.board
	b.top, b.after = later(b.top, r.acked), later(b.after, r.acked)
	done := 0
	for i, x := range b.repairs {
		switch {
		case x.psn.Before(r.acked) || b.held.has(x.psn):
			b.after = later(b.after, x.after)
			done = i + 1
		case x.after.Before(b.top):
			done = i + 1
		}
	}
	b.forget(done)
	b.edge = later(b.edge, b.top)
	q.relocate()
}

// relocate restarts the search for losses and recomputes what is in flight. If nothing is missing, ackTo has done
// that.
func (q *QP) relocate() {
	r, b := &q.req, q.req.board
	missing := r.missing()
	if !missing && !b.active {
		return
	}
	b.active = missing
	q.searchLost()
	q.recount()
}

// judgeReported is judge for acknowledgements. They report everything that the peer holds, so a repair that has
// arrived proves the loss of missing packets sent before it. psn is the packet that the peer waits for.
func (q *QP) judgeReported(now time.Duration, psn wire.PSN) {
	b := q.req.board
	before := q.req.inflight
	b.held.drop(psn) // otherwise it would have been executed
	q.judge()
	q.proven()
	q.grow(now, before)
}

// forget removes the first n repairs from the list: they have arrived or are lost.
func (b *board) forget(n int) {
	for _, x := range b.repairs[:n] {
		b.again.drop(x.psn)
	}
	b.repairs = append(b.repairs[:0], b.repairs[n:]...)
}

// giveUpFirst marks the first unacknowledged request packet and all repairs as lost.
func (q *QP) giveUpFirst() {
	r, b := &q.req, q.scoreboard()
	b.forget(len(b.repairs))
	b.held.drop(r.acked)
	if r.acked != r.next {
		w := q.sq.at(r.ackIdx)
		off := uint32(r.acked.Diff(w.first))
		b.edge = later(b.edge, r.acked.Add(q.unit(w, off)))
	}
	q.relocate()
}

// unit returns the number of PSNs of the request packet at off of w: for a READ those up to the end of its piece.
func (q *QP) unit(w *sendWQE, off uint32) uint32 {
	if w.answered() {
		return min(q.req.piece-off%q.req.piece, w.packets-off)
	}
	return 1
}

// searchLost restarts the search for losses.
func (q *QP) searchLost() {
	r, b := &q.req, q.req.board
	b.idx, b.off = r.ackIdx, 0
	if b.idx == q.sq.tail || !q.sq.at(b.idx).started {
		return
	}
	w := q.sq.at(b.idx)
	b.off = uint32(max(0, r.acked.Diff(w.first)))
	if w.answered() {
		b.off -= b.off % r.piece
	}
}

// nextLost advances the search to the first packet that is lost and not repaired. It returns false if there is none.
func (q *QP) nextLost() bool {
	r, b := &q.req, q.req.board
	for r.missing() && b.idx != q.sq.tail {
		w := q.sq.at(b.idx)
		if !w.started {
			return false
		}
		for b.off < w.packets {
			psn := w.first.Add(b.off)
			if !psn.Before(b.edge) || psn.Diff(r.acked) >= boardSpan {
				return false
			}
			if q.lost(psn) {
				return true
			}
			b.off += q.unit(w, b.off)
		}
		b.idx++
		b.off = 0
	}
	return false
}

// lost reports whether the request packet with that PSN, which is before edge, is lost and not repaired. Nothing is
// known to have arrived beyond boardSpan.
func (q *QP) lost(psn wire.PSN) bool {
	b := q.req.board
	if d := psn.Diff(q.req.acked); d < 0 || d >= boardSpan {
		return d >= 0
	}
	return !b.held.has(psn) && !b.again.has(psn)
}

// sendRepair sends the packet found by nextLost. It returns false if the packet has to wait.
func (q *QP) sendRepair(now time.Duration, o *Outbox) bool {
	r, b := &q.req, q.req.board
	w := q.sq.at(b.idx)
	x := repair{psn: w.first.Add(b.off), after: r.next}
	if w.answered() {
		n := q.unit(w, b.off)
		if !r.probing && !q.rtt.reads.allows(r.reading, int(n)*q.peer.PathMTU) {
			return false
		}
		q.requestResponses(now, o, w, b.off, n)
	} else {
		x.cost = q.cost(w, b.off, b.off+1)
		if !q.emitData(now, o, b.idx, b.off, true) {
			return false
		}
	}
	b.again.add(x.psn)
	b.repairs = append(b.repairs, x)
	q.lostPacket(now, x.psn)
	return true
}

// recount recomputes what is in flight. Request packets that are lost or held by the peer do not count, but responses
// to a held READ do.
func (q *QP) recount() {
	r, b := &q.req, q.req.board
	r.inflight, r.reading = 0, q.asked()
	for i := r.ackIdx; i != q.sq.tail; i++ {
		w := q.sq.at(i)
		sent := r.next.Diff(w.first)
		if !w.started || sent <= 0 {
			break
		}
		to := min(uint32(sent), w.packets)
		if w.answered() {
			r.reading += q.comingOf(w, to) * q.peer.PathMTU
		} else if from := uint32(max(0, b.edge.Diff(w.first))); from < to {
			r.inflight += q.cost(w, from, to)
		}
	}
	for i := range b.repairs {
		r.inflight += b.repairs[i].cost
	}
}

// comingOf returns the number of responses, from acked on, that the packets of w before to call for, except those
// whose request is lost.
func (q *QP) comingOf(w *sendWQE, to uint32) (n int) {
	r := &q.req
	off := uint32(max(0, r.acked.Diff(w.first)))
	for off -= off % r.piece; off < to; off += q.unit(w, off) {
		psn, end := w.first.Add(off), w.first.Add(off+q.unit(w, off))
		if psn.Before(q.req.board.edge) && !psn.Before(r.acked) && q.lost(psn) {
			continue
		}
		n += int(max(0, min(end.Diff(psn), end.Diff(r.acked))))
	}
	return n
}
