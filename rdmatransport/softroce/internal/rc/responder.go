package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// maxAhead is how far ahead of the expected PSN a request may be.
const maxAhead = 4096

// responder is the state of the receiving side.
type responder struct {
	expected wire.PSN // PSN of the next request packet
	msn      wire.MSN // messages completed

	message wire.OpFlags // FlagSend or FlagWrite while a message is arriving
	offset  uint32       // bytes of that message received
	write   wire.RETH    // address and key of that WRITE

	held   reorder // out-of-order requests
	window reorderWindow
	bitmap bitmap    // of held, sent in an acknowledgement
	meter  lossMeter // loss rate of responses

	// answered is the PSN of the last SEND or WRITE packet executed, which acknowledgements to a foreign peer carry.
	// Linux's rdma_rxe completes a READ on an ACK with the PSN of its last response, whether or not it has the data.
	answered wire.PSN

	ackDue  bool
	asked   bool          // a softroce peer has asked for an acknowledgement soon
	unacked int           // request packets since the last ACK
	repeats int           // times the last ACK was repeated
	nak     wire.Syndrome // the NAK to send
	nakPSN  wire.PSN      // its PSN: of the request, or of the response that it replaces
	nakDue  bool
	nakSent bool // for this gap (IBTA 9.7.5.1.2: one NAK per gap)
	waiting bool // for the message answered with an RNR NAK to be sent again

	jobs jobQueue // responses to send
}

func (r *responder) connect(p *Peer) {
	r.expected, r.answered = p.RecvPSN, p.RecvPSN.Sub(1)
	r.window.connect()
	r.jobs.init(p.ReadsIn)
}

func (r *responder) stop(*QP) {
	r.held.clear()
	r.jobs.clear()
	r.ackDue = false
}

// receiveRequest handles a request packet that is the next one, ahead of its turn, or a duplicate (IBTA 9.7.4.1.2).
func (q *QP) receiveRequest(now time.Duration, p *wire.Packet, flags wire.OpFlags) {
	gap := len(q.resp.held.list) > 0
	switch d := p.PSN.Diff(q.resp.expected); {
	case d < 0:
		q.receiveDuplicate(now, p, flags)
	case d > 0:
		q.receiveAhead(now, p, d)
	default:
		if q.execute(p, flags) {
			q.executeHeld(now)
			q.oweAck(now)
		}
	}
	if q.peer.Own && q.state == StateConnected && (gap || len(q.resp.held.list) > 0) {
		q.resp.ackDue = true // with a bitmap, or because the gap is closed
	}
}

func (q *QP) receiveAhead(now time.Duration, p *wire.Packet, distance int32) {
	r := &q.resp
	if distance > maxAhead {
		q.cfg.Counters.FarAhead++
		return
	}
	if r.held.keep(now, p) {
		q.cfg.Counters.OutOfOrder++
	} else {
		q.cfg.Counters.StoreFull++
	}
	if q.peer.Own || r.nakSent || r.nakDue || r.waiting || q.timer.running(timerGap) {
		return
	}
	q.openGap(now)
}

// executeHeld executes held requests that waited for the one just executed.
func (q *QP) executeHeld(now time.Duration) {
	r := &q.resp
	r.nakSent = false
	if r.nakDue && r.nak == wire.SyndromeSequence {
		// The missing packet arrived before the NAK was sent: received packets may be handled in several batches
		// before that. A needless NAK makes a Linux host lose its controller.
		r.nakDue, r.window.acted = false, false
	}
	advanced := true
	for advanced && q.state == StateConnected {
		h := r.held.next(now, r.expected)
		if h == nil {
			break
		}
		advanced = q.execute(&h.pkt, h.pkt.Opcode.Flags())
		r.held.store.giveBack(h)
	}
	if q.state != StateConnected {
		return
	}
	if r.window.open {
		r.window.closed(now)
		q.timer.stop(timerGap)
	}
	if _, ok := r.held.first(); ok && advanced && !q.peer.Own {
		q.openGap(now)
	}
}

// openGap starts the reorder window when packets of a foreign peer are held after a gap.
func (q *QP) openGap(now time.Duration) {
	r := &q.resp
	r.window.opened(now)
	q.timer.set(timerGap, now+r.window.length)
}

// gapExpired reports the gap to the peer.
func (q *QP) gapExpired(time.Duration) {
	r := &q.resp
	if r.nakDue {
		return
	}
	r.window.acted = true
	r.oweNAK(wire.SyndromeSequence, r.expected)
	r.nakSent = true
}

// execute executes the next request. It returns false if the request must be sent again (no receive posted) or the
// queue pair has ended.
func (q *QP) execute(p *wire.Packet, flags wire.OpFlags) bool {
	if !q.inSequence(flags) || !q.lengthFits(p, flags) || !q.permitted(flags) {
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	var ok bool
	n := uint32(1)
	switch {
	case flags&wire.FlagSend != 0:
		ok = q.executeSend(p, flags)
	case flags&wire.FlagWrite != 0:
		ok = q.executeWrite(p, flags)
	case flags&wire.FlagReadRequest != 0:
		n, ok = q.executeRead(p)
	case flags&wire.FlagAtomic != 0:
		ok = q.executeAtomic(p)
	default:
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	if !ok {
		return false
	}
	r := &q.resp
	r.expected = r.expected.Add(n)
	r.waiting = false
	if flags&wire.FlagEnd != 0 {
		r.msn = r.msn.Add(1)
		r.message = 0
	}
	if flags&(wire.FlagReadRequest|wire.FlagAtomic) != 0 {
		// The response acknowledges everything before it.
		r.ackDue, r.asked, r.unacked = false, false, 0
		q.timer.stop(timerAckRepeat)
		return true
	}
	r.answered = p.PSN
	r.unacked++
	if q.peer.Own {
		r.asked = r.asked || p.AckReq
		r.ackDue = r.ackDue || r.unacked >= 4*ackEvery
	} else {
		r.ackDue = r.ackDue || p.AckReq || r.unacked >= 2*ackEvery
	}
	return true
}

// inSequence reports whether the packet fits: a first or only packet starts a message, any other continues one of its
// own kind (IBTA 9.7.4.1.3).
func (q *QP) inSequence(flags wire.OpFlags) bool {
	if flags&wire.FlagStart != 0 {
		return q.resp.message == 0
	}
	return q.resp.message != 0 && flags&q.resp.message != 0
}

// permitted reports whether the operation is enabled: without remote access, only SENDs are. Others are invalid
// requests.
func (q *QP) permitted(flags wire.OpFlags) bool {
	return !q.cfg.NoRemote || flags&wire.FlagSend != 0
}

// lengthFits reports whether the payload length is valid: every packet but the last is full (IBTA 9.7.4.1.6), or,
// from a softroce peer, at least as long as the last.
func (q *QP) lengthFits(p *wire.Packet, flags wire.OpFlags) bool {
	n, mtu := len(p.Payload), q.peer.PathMTU
	switch {
	case flags&(wire.FlagSend|wire.FlagWrite) == 0:
		return n == 0
	case flags&wire.FlagEnd == 0:
		return n == mtu || q.peer.Own && n > 0 && n < mtu && flags&wire.FlagSend != 0
	case flags&wire.FlagStart == 0:
		return n >= 1 && n <= mtu
	}
	return n <= mtu
}

func (q *QP) executeSend(p *wire.Packet, flags wire.OpFlags) bool {
	r := &q.resp
	if flags&wire.FlagStart != 0 {
		if q.rq.oldest() == nil && !q.takeShared() {
			return q.notReady()
		}
		if !q.receiveUsable() {
			q.refuse(wire.SyndromeRemoteOperational, rdmatransport.StatusLocalProtection)
			return false
		}
		r.message, r.offset = wire.FlagSend, 0
	}
	sgl := q.rq.sgl()
	if !wire.InRange(uint64(r.offset), uint64(len(p.Payload)), sglLength(sgl)) {
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusLocalLength)
	}
	scatter(sgl, r.offset, p.Payload)
	r.offset += uint32(len(p.Payload))
	if flags&wire.FlagEnd == 0 {
		return true
	}
	if flags&wire.FlagHasInv != 0 && !q.cfg.Keys.Invalidate(p.InvKey) {
		return q.refuse(wire.SyndromeRemoteAccess, rdmatransport.StatusFlushed)
	}
	q.completeRecv(rdmatransport.OpRecv, p, flags)
	return true
}

// receiveUsable reports whether the oldest receive's keys cover its buffers.
func (q *QP) receiveUsable() bool {
	for _, s := range q.rq.sgl() {
		if !q.cfg.Keys.Local(s.LKey, s.Buf, true) {
			return false
		}
	}
	return true
}

func (q *QP) completeRecv(op rdmatransport.Opcode, p *wire.Packet, flags wire.OpFlags) {
	c := rdmatransport.Completion{ID: q.rq.oldest().id, QPN: q.cfg.QPN, Op: op, Bytes: q.resp.offset}
	if flags&wire.FlagHasImm != 0 {
		c.Flags |= rdmatransport.HasImmediate
		c.Imm = p.Imm
	}
	if flags&wire.FlagHasInv != 0 {
		c.Flags |= rdmatransport.HasInvalidated
		c.InvalidatedKey = p.InvKey
	}
	q.cfg.Completions.push(c)
	q.rq.pop()
}

func (q *QP) executeWrite(p *wire.Packet, flags wire.OpFlags) bool {
	r := &q.resp
	n := uint32(len(p.Payload))
	if flags&wire.FlagStart != 0 {
		r.write, r.offset = p.RETH, 0
	}
	end := flags&wire.FlagEnd != 0
	if !wire.InRange(uint64(r.offset), uint64(n), uint64(r.write.DMALen)) || end != (r.offset+n == r.write.DMALen) {
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	immediate := flags&wire.FlagHasImm != 0
	if immediate && q.rq.oldest() == nil && !q.takeShared() {
		return q.notReady()
	}
	if n > 0 {
		// The key is resolved again for each packet, since it may have been invalidated in between. The whole range
		// is checked, so that a bad one is refused at the first packet.
		b, ok := q.cfg.Keys.Remote(r.write.RKey, r.write.VA, r.write.DMALen, rdmatransport.AccessRemoteWrite)
		if !ok {
			return q.refuse(wire.SyndromeRemoteAccess, rdmatransport.StatusFlushed)
		}
		copy(b[r.offset:], p.Payload)
		q.cfg.Keys.Written(r.write.RKey, n)
	}
	r.message = wire.FlagWrite
	r.offset += n
	if immediate && end {
		q.completeRecv(rdmatransport.OpRecvWriteImm, p, flags)
	}
	return true
}

// notReady answers a message for which no receive is posted (IBTA 9.7.5.2.8).
func (q *QP) notReady() bool {
	q.resp.oweNAK(wire.SyndromeRNR(q.peer.RNRDelay), q.resp.expected)
	q.resp.waiting = true
	q.cfg.Counters.RNRNAKsSent++
	return false
}

// refuse ends the queue pair with a NAK that tells the peer the reason. The receive in progress completes with status
// recv, unless that is StatusFlushed.
func (q *QP) refuse(syndrome wire.Syndrome, recv rdmatransport.Status) bool {
	q.cfg.Counters.ErrorNAKsSent++
	q.failRecv(recv)
	q.resp.oweNAK(syndrome, q.resp.expected)
	return false
}

func (r *responder) oweNAK(syndrome wire.Syndrome, psn wire.PSN) {
	r.nak, r.nakPSN, r.nakDue = syndrome, psn, true
}
