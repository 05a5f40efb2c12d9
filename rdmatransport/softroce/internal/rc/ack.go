package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// receiveResponse handles a packet of the peer's responder.
func (q *QP) receiveResponse(now time.Duration, p *wire.Packet, flags wire.OpFlags) {
	if p.PSN.Diff(q.req.next) >= 0 {
		// A "ghost" acknowledgement of a packet not yet sent (IBTA 9.7.5.1.1).
		q.cfg.Counters.GhostAcks++
		return
	}
	if flags&wire.FlagPayload == 0 && len(p.Payload) > 0 && !q.bitmapFits(p) {
		q.cfg.Counters.BadAcks++
		return
	}
	if flags&(wire.FlagReadResponse|wire.FlagAtomicAck) != 0 {
		q.receiveData(now, p)
	} else {
		q.receiveAck(now, p)
	}
	if q.state == StateConnected {
		q.complete()
	}
}

func (q *QP) receiveAck(now time.Duration, p *wire.Packet) {
	r := &q.req
	kind := p.AETH.Syndrome.Kind()
	if p.PSN.Before(r.acked) && !(kind == wire.AETHAck && p.PSN.Add(1) == r.acked) {
		q.cfg.Counters.OldAcks++
		return // older than acked: it contains nothing new
	}
	switch kind {
	case wire.AETHAck:
		if p.PSN.Add(1) != r.acked {
			q.progress(now, p.PSN.Add(1))
		}
		if q.peer.Own {
			q.reported(now, p)
			return
		}
	case wire.AETHRNR:
		q.receiveRNR(now, p)
	case wire.AETHNAK:
		q.receiveNAK(now, p)
	default:
		q.cfg.Counters.BadAcks++
		return
	}
	q.checkReadGap(now)
}

// reported evaluates an acknowledgement of a softroce peer.
func (q *QP) reported(now time.Duration, p *wire.Packet) {
	q.receiveBitmap(now, p)
	if q.req.board != nil {
		q.judgeReported(now, p.PSN.Add(1))
	}
	q.asksPassed()
}

// progress acknowledges every packet before psn.
func (q *QP) progress(now time.Duration, psn wire.PSN) {
	r := &q.req
	before, from := r.inflight, r.acked
	q.ackTo(psn)
	if r.board != nil {
		r.board.passed(from, r.acked)
		q.judge()
	}
	q.rtt.acknowledged(now, psn)
	q.grow(now, before)
	r.probing, r.probed = false, false
	r.rnrCount = 0
	r.waitRNR = false
	q.heard(now)
}

// grow opens the window for the bytes that have left it; before is inflight as it was.
func (q *QP) grow(now time.Duration, before int) {
	q.rtt.sends.arrived(before-q.req.inflight, q.peer.PathMTU, q.rtt.crowded || q.rate.on && q.notified(now))
}

// heard restarts the retransmission timer, or stops it if nothing is outstanding.
func (q *QP) heard(now time.Duration) {
	q.req.lastHeard = now
	q.rtt.answered()
	if q.outstanding() {
		q.timer.set(timerRetry, now+q.rtt.timeout())
	} else {
		q.timer.stop(timerRetry)
	}
}

func (q *QP) outstanding() bool {
	return q.req.acked != q.req.next || q.awaiting() != nil
}

// ackTo advances acked to psn, over as many requests as it covers.
func (q *QP) ackTo(psn wire.PSN) {
	r := &q.req
	for r.ackIdx != q.sq.tail {
		w := q.sq.at(r.ackIdx)
		if !w.started {
			break
		}
		to := min(w.packets, uint32(max(0, psn.Diff(w.first))))
		from := uint32(max(0, r.acked.Diff(w.first)))
		if to > from {
			switch {
			case !w.answered():
				r.inflight = max(0, r.inflight-q.cost(w, from, to))
			case q.peer.Own:
				r.reading = max(0, r.reading-int(to-from)*q.peer.PathMTU)
			}
			r.acked = w.first.Add(to)
		}
		if to < w.packets {
			break
		}
		r.ackIdx++
	}
	q.skipAcked()
}

// skipAcked moves the cursor past acknowledged packets, so that they are not sent again.
func (q *QP) skipAcked() {
	r := &q.req
	if int32(r.cur-r.ackIdx) < 0 {
		r.cur, r.off, r.inflight = r.ackIdx, 0, 0
	}
	if r.cur == r.ackIdx && r.cur != q.sq.tail {
		if w := q.sq.at(r.cur); w.started {
			r.off = max(r.off, uint32(max(0, r.acked.Diff(w.first))))
		}
	}
}

// cost returns the window weight of w's packets from..to-1.
func (q *QP) cost(w *sendWQE, from, to uint32) int {
	return int(min(to*w.part, w.length)-min(from*w.part, w.length)) + int(to-from)*packetCost
}

// complete posts the completions of finished requests, in order.
func (q *QP) complete() {
	for q.sq.head != q.req.ackIdx {
		w := q.sq.oldest()
		if w.answered() && w.received < w.packets {
			return
		}
		if w.flags&rdmatransport.FlagSignaled != 0 {
			q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: w.op, Bytes: w.length})
		}
		q.sq.pop()
	}
}

// awaiting returns the oldest request sent that still lacks responses, or nil.
func (q *QP) awaiting() *sendWQE {
	r := &q.req
	if int32(r.respIdx-q.sq.head) < 0 {
		r.respIdx = q.sq.head
	}
	for r.respIdx != q.sq.tail {
		w := q.sq.at(r.respIdx)
		if !w.started {
			return nil
		}
		if w.answered() && w.received < w.packets {
			return w
		}
		r.respIdx++
	}
	return nil
}

// receiveData handles a READ response or atomic acknowledgement.
func (q *QP) receiveData(now time.Duration, p *wire.Packet) {
	w := q.awaiting()
	if w == nil {
		q.cfg.Counters.DuplicateResponses++
		return
	}
	switch d := p.PSN.Diff(w.first.Add(w.received)); {
	case d < 0:
		q.cfg.Counters.DuplicateResponses++
	case d > 0:
		q.keepResponse(now, p)
	default:
		if q.peer.Own {
			q.responseCame(now, p)
		}
		q.consume(now, w, p)
		q.consumeHeld(now)
	}
}

func (q *QP) keepResponse(now time.Duration, p *wire.Packet) {
	if !q.req.held.keep(now, p) {
		q.cfg.Counters.StoreFull++
		return
	}
	q.cfg.Counters.OutOfOrder++
	if q.peer.Own {
		q.responseCame(now, p)
	} else {
		q.startReadGap(now)
	}
}

func (q *QP) consumeHeld(now time.Duration) {
	for q.state == StateConnected {
		w := q.awaiting()
		if w == nil {
			break
		}
		h := q.req.held.next(now, w.first.Add(w.received))
		if h == nil {
			break
		}
		q.consume(now, w, &h.pkt)
		q.req.held.store.giveBack(h)
	}
	if q.state != StateConnected {
		return
	}
	q.req.window.closed(now)
	q.timer.stop(timerReadGap)
	q.checkReadGap(now)
}

// consume stores the next response of w.
func (q *QP) consume(now time.Duration, w *sendWQE, p *wire.Packet) {
	mtu := uint32(q.peer.PathMTU)
	atomic := w.op != rdmatransport.OpRead
	want := min(mtu, w.length-w.received*mtu)
	if atomic {
		want = 0
	}
	if atomic != (p.Opcode.Flags()&wire.FlagAtomicAck != 0) || uint32(len(p.Payload)) != want {
		q.failAt(w.first, rdmatransport.StatusBadResponse)
		return
	}
	sgl := q.sq.sgl(q.req.respIdx)
	if atomic {
		storeAtomicResult(sgl, p.AtomicAck)
	} else {
		scatter(sgl, w.received*mtu, p.Payload)
	}
	w.received++
	if !q.peer.Own { // otherwise counted in responseCame
		q.req.reading = max(0, q.req.reading-q.peer.PathMTU)
		q.rtt.reads.arrived(len(p.Payload), q.peer.PathMTU, q.rtt.crowded || now < q.notify.calm)
	}
	q.pieceDone(now, w)
	if q.req.acked.Before(p.PSN.Add(1)) {
		q.progress(now, p.PSN.Add(1))
	} else {
		q.heard(now)
	}
}

// pieceDone releases what a finished READ piece or atomic had reserved.
func (q *QP) pieceDone(now time.Duration, w *sendWQE) {
	piece := q.req.piece
	if w.received < w.packets && w.received%piece != 0 {
		return
	}
	n := (w.received-1)%piece + 1
	cost := int(n) * truesize(q.peer.PathMTU)
	q.req.moved = now
	q.req.readsOut--
	cost = min(cost, q.req.budgeted) // the rest has been written off
	q.req.budgeted -= cost
	q.cfg.Budget.give(cost)
}

// scatter copies b into the scatter list at offset at.
func scatter(sgl []rdmatransport.SGE, at uint32, b []byte) {
	for i := range sgl {
		buf := sgl[i].Buf
		if at >= uint32(len(buf)) {
			at -= uint32(len(buf))
			continue
		}
		n := copy(buf[at:], b)
		if b = b[n:]; len(b) == 0 {
			return
		}
		at = 0
	}
}

// receiveRNR handles an RNR NAK: the peer has no receive for the message at that PSN (IBTA 9.7.5.2.8).
func (q *QP) receiveRNR(now time.Duration, p *wire.Packet) {
	r := &q.req
	q.cfg.Counters.RNRNAKsGot++
	if p.PSN != r.acked {
		q.progress(now, p.PSN)
	}
	if r.rnrCount++; q.peer.RNRRetryCount < 7 && r.rnrCount > int(q.peer.RNRRetryCount) {
		q.failAt(p.PSN, rdmatransport.StatusRNRRetryExceeded)
		return
	}
	q.heard(now)
	if q.peer.Own {
		q.giveUpFirst()
	} else {
		q.rewind()
	}
	// Only one packet is sent to find out whether the peer is ready now. Otherwise a peer that is never ready would
	// get a whole window of packets for each NAK.
	r.probing, r.probed = !q.peer.Own, false
	r.waitRNR = true
	q.timer.stop(timerRetry)
	q.timer.set(timerRNR, now+max(p.AETH.Syndrome.RNRDelay(), notReadyDelay(r.rnrCount)))
}

// notReadyDelay returns the minimum delay after naks RNR NAKs without progress. It doubles each time: a peer is
// delayed by no more than about the time that it was not ready, and one that sends RNR NAKs forever costs little.
func notReadyDelay(naks int) time.Duration {
	return 10 * time.Microsecond << min(naks-1, 10) // up to 10 ms
}

// receiveNAK handles the NAK codes of IBTA table 46.
func (q *QP) receiveNAK(now time.Duration, p *wire.Packet) {
	if p.AETH.Syndrome == wire.SyndromeSequence {
		q.cfg.Counters.SequenceNAKsGot++
		q.progress(now, p.PSN)
		if q.peer.Own { // a softroce peer reports losses by bitmaps
			q.giveUpFirst()
			return
		}
		if !q.rate.on || q.rate.metering {
			q.rtt.sends.lost(q.req.acked, q.req.next)
		}
		q.congested(now, lossAlpha)
		q.rewind()
		return
	}
	status, ok := nakStatus[p.AETH.Syndrome]
	if !ok {
		q.cfg.Counters.BadAcks++
		return
	}
	q.cfg.Counters.ErrorNAKsGot++
	q.failAt(p.PSN, status)
}

var nakStatus = map[wire.Syndrome]rdmatransport.Status{
	wire.SyndromeInvalidRequest:    rdmatransport.StatusRemoteInvalidRequest,
	wire.SyndromeRemoteAccess:      rdmatransport.StatusRemoteAccess,
	wire.SyndromeRemoteOperational: rdmatransport.StatusRemoteOperation,
}

// failAt ends the queue pair because of the request that contains psn. Earlier requests complete, or are flushed if
// their responses are still missing.
func (q *QP) failAt(psn wire.PSN, status rdmatransport.Status) {
	q.ackTo(psn)
	q.complete()
	for q.sq.head != q.req.ackIdx {
		w := q.sq.oldest()
		if w.started && psn.Diff(w.first) < int32(w.packets) {
			break
		}
		q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: w.op, Status: rdmatransport.StatusFlushed})
		q.sq.pop()
	}
	q.failSend(status)
}
