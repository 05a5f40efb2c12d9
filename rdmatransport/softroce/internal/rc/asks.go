package rc

import (
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// ask is a repeated request for n lost responses.
type ask struct {
	psn   wire.PSN
	n     uint32
	after wire.PSN // packets with this PSN or a later one were sent after the request
}

// asks is the scoreboard of responses from a softroce peer. Responses arrive in the order of the requests, followed
// by the acknowledgement. So a response that is missing before acked is lost, unless it was asked for again. A
// repeated request is lost if a packet sent later has arrived.
type asks struct {
	list     []ask  // in order of sending
	idx, off uint32 // position of the search: no response before it is lost
}

// asked returns the number of bytes that the repeated requests call for.
func (q *QP) asked() (n int) {
	for i := range q.req.asks.list {
		n += int(q.req.asks.list[i].n)
	}
	return n * q.peer.PathMTU
}

// forgetAsks removes the first n entries from the list.
func (q *QP) forgetAsks(n int) {
	a := &q.req.asks
	if n == 0 {
		return
	}
	for _, x := range a.list[:n] {
		q.req.reading -= int(x.n) * q.peer.PathMTU
	}
	a.list = append(a.list[:0], a.list[n:]...)
	a.idx, a.off = q.sq.head, 0
}

// responseCame updates the scoreboard for a response that has arrived: whatever was asked for before it has arrived
// too, or is lost.
func (q *QP) responseCame(now time.Duration, p *wire.Packet) {
	q.rtt.reads.arrived(len(p.Payload), q.peer.PathMTU, q.rtt.crowded || now < q.notify.calm)
	q.rtt.reads.meter.count(1, 0)
	probing := q.req.probing
	q.req.probing, q.req.probed = false, false
	for i := range q.req.asks.list {
		x := &q.req.asks.list[i]
		d := p.PSN.Diff(x.psn)
		if d < 0 || d >= int32(x.n) {
			continue
		}
		q.req.reading -= int(d+1) * q.peer.PathMTU
		x.psn, x.n = p.PSN.Add(1), x.n-uint32(d+1)
		if x.n == 0 {
			i++
		}
		q.forgetAsks(i)
		q.req.asks.idx, q.req.asks.off = q.sq.head, 0 // skipped responses are lost
		break
	}
	if q.req.acked.Before(p.PSN.Add(1)) {
		q.progress(now, p.PSN.Add(1))
	}
	if probing && q.req.board != nil {
		q.proven() // the peer acknowledged whatever it held long ago
	}
	q.asksPassed()
}

// asksPassed removes repeated requests that were sent before a packet that has arrived.
func (q *QP) asksPassed() {
	top := q.req.acked
	if b := q.req.board; b != nil {
		top = later(top, b.top)
	}
	n := 0
	for n < len(q.req.asks.list) && q.req.asks.list[n].after.Before(top) {
		n++
	}
	q.forgetAsks(n)
}

// covered returns the number of responses from psn on that need not be asked for: they have arrived, or were asked
// for again.
func (q *QP) covered(psn wire.PSN) uint32 {
	for i := range q.req.asks.list {
		x := &q.req.asks.list[i]
		if d := psn.Diff(x.psn); d >= 0 && d < int32(x.n) {
			return x.n - uint32(d)
		}
	}
	if q.req.held.has(psn) {
		return 1
	}
	return 0
}

// nextMissing advances the search to the first lost response and returns the number of consecutive ones of the same
// request, or 0.
func (q *QP) nextMissing() uint32 {
	r, a := &q.req, &q.req.asks
	if int32(a.idx-q.sq.head) < 0 {
		a.idx, a.off = q.sq.head, 0
	}
	for a.idx != q.sq.tail {
		w := q.sq.at(a.idx)
		if !w.started || !w.first.Add(a.off).Before(r.acked) {
			return 0
		}
		a.off = max(a.off, w.received)
		end := min(w.issued, uint32(max(0, r.acked.Diff(w.first))))
		for w.answered() && a.off < end {
			if n := q.uncovered(w, min(end, a.off+q.unit(w, a.off))); n > 0 {
				return n
			}
			a.off += q.covered(w.first.Add(a.off))
		}
		if !w.answered() || a.off >= w.packets {
			a.idx++
			a.off = 0
		} else if a.off >= end {
			return 0
		}
	}
	return 0
}

// uncovered returns the number of lost responses from the search position to end.
func (q *QP) uncovered(w *sendWQE, end uint32) (n uint32) {
	off := q.req.asks.off
	for off+n < end && q.covered(w.first.Add(off+n)) == 0 {
		n++
	}
	return n
}

// sendAsk asks again for the n responses found by nextMissing. It returns false if the window does not allow it.
func (q *QP) sendAsk(now time.Duration, o *Outbox, n uint32) bool {
	r, a := &q.req, &q.req.asks
	if !r.probing && !q.rtt.reads.allows(r.reading, int(n)*q.peer.PathMTU) {
		return false
	}
	w := q.sq.at(a.idx)
	psn := w.first.Add(a.off)
	a.list = append(a.list, ask{psn: psn, n: n, after: r.next})
	q.requestResponses(now, o, w, a.off, n)
	a.off += n
	q.rtt.reads.meter.count(0, int(n))
	q.rtt.reads.missed(psn, r.next)
	return true
}

// has reports whether the packet with that PSN is held.
func (r *reorder) has(psn wire.PSN) bool {
	_, ok := slices.BinarySearchFunc(r.list, psn, func(h *held, psn wire.PSN) int { return int(h.pkt.PSN.Diff(psn)) })
	return ok
}

// transmitAgain repeats what was lost, before anything new is sent. clear reports that no losses are left.
func (q *QP) transmitAgain(now time.Duration, o *Outbox) (clear, more bool) {
	r := &q.req
	for !(r.probing && r.probed) {
		missing := q.nextMissing()
		if missing == 0 && (r.waitRNR || !q.nextLost()) {
			return true, false
		}
		if o.Full() {
			return false, true
		}
		ok := false
		if missing > 0 {
			ok = q.sendAsk(now, o, missing)
		} else {
			ok = q.sendRepair(now, o)
		}
		if !ok {
			return false, false
		}
	}
	return false, false
}
