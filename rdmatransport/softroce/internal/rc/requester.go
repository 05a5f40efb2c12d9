package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	// packetCost is the weight of a packet in the window, in addition to its payload.
	packetCost = 64
	// maxReadPiece is the maximum size, in bytes, of one READ request packet.
	maxReadPiece = 64 << 10
	// maxSpan is the maximum number of outstanding PSNs when a request is started.
	maxSpan = 1 << 22
	// maxEqualParts is small enough that rounding to words leaves something for the last part.
	maxEqualParts = 16
	// ackEvery is the number of packets of which at least one asks for an ACK.
	ackEvery = 16
)

// requester is the state of the sending side. Requests before ackIdx are acknowledged, and those from cur on are not
// sent or have to be sent again. Completion (the queue's head) may lag behind ackIdx, since READs wait for their
// data.
type requester struct {
	next     wire.PSN // PSN of the next new packet
	acked    wire.PSN // every packet before it is acknowledged
	ackIdx   uint32   // the request that contains acked
	cur      uint32   // the request that Transmit continues with
	off      uint32   // number of its packets already sent
	respIdx  uint32   // no request before it awaits a response
	inflight int      // window bytes between acked and the cursor
	reading  int      // bytes of responses requested, until they arrive or are given up

	unasked   int           // data packets since one that asked for an ACK
	readsOut  int           // READ pieces and atomics in flight
	piece     uint32        // packets per READ piece
	budgeted  int           // bytes taken from the shard's budget
	moved     time.Duration // when budget was last returned, or first taken
	blocked   bool
	waitRNR   bool
	rnrCount  int
	probing   bool   // after a timeout: one packet is sent, then nothing until an answer
	probed    bool   // that packet has been sent
	board     *board // of requests to a softroce peer; nil before the first loss
	asks      asks   // of responses from a softroce peer
	reread    bool   // request again the responses missing before acked,
	againIdx  uint32 // from this request on,
	againOff  uint32 // and this packet of it
	lastHeard time.Duration

	held   reorder // out-of-order responses
	window reorderWindow
}

func (r *requester) connect(p *Peer, b *Budget) {
	r.next, r.acked = p.SendPSN, p.SendPSN
	r.piece = readPiece(p.PathMTU, b)
	r.window.connect()
}

func (r *requester) stop(q *QP) {
	q.cfg.Budget.give(r.budgeted)
	r.budgeted = 0
	r.blocked = false
	r.held.clear()
}

// WriteOff returns the queue pair's share of the shard's budget if no response has arrived since then, so that others
// can use it. Responses that arrive after all arrive slowly.
func (q *QP) WriteOff(since time.Duration) {
	if r := &q.req; r.budgeted > 0 && r.moved < since {
		q.cfg.Budget.give(r.budgeted)
		r.budgeted = 0
	}
}

// readPiece returns the number of response packets per READ request packet.
func readPiece(mtu int, b *Budget) uint32 {
	n := maxReadPiece / mtu
	if b != nil {
		n = min(n, b.Limit/4/truesize(mtu))
	}
	return uint32(max(1, n))
}

// transmitRequests emits what the window, the budget and the peer's limits allow.
func (q *QP) transmitRequests(now time.Duration, o *Outbox) (more bool) {
	r := &q.req
	r.blocked = false
	if q.peer.Own && (r.readsOut > 0 || r.missing()) {
		if clear, more := q.transmitAgain(now, o); !clear {
			return more
		}
	}
	for r.reread {
		if o.Full() {
			return true
		}
		if !q.sendReread(now, o) {
			return false
		}
	}
	for q.state == StateConnected && r.cur != q.sq.tail && !r.waitRNR && !(r.probing && r.probed) {
		if o.Full() {
			return true
		}
		if !q.sendNext(now, o) {
			return false
		}
	}
	return false
}

// sendNext emits the packet at the cursor. It returns false if the packet has to wait.
func (q *QP) sendNext(now time.Duration, o *Outbox) bool {
	w := q.sq.at(q.req.cur)
	if !w.started && !q.start(w) {
		return false
	}
	if w.packets == 0 { // also when the cursor passes it a second time
		q.finishLocal()
		return true
	}
	if w.answered() {
		return q.sendReadOrAtomic(now, o, w)
	}
	return q.sendData(now, o, w)
}

// start assigns PSNs to the request at the cursor. It returns false if the request has to wait.
func (q *QP) start(w *sendWQE) bool {
	r := &q.req
	if w.flags&rdmatransport.FlagFence != 0 && q.awaiting() != nil {
		return false
	}
	if w.op == rdmatransport.OpInvalidate && w.status == rdmatransport.StatusSuccess {
		q.cfg.Keys.Invalidate(w.invKey) // fails if the window was bound again meanwhile
	}
	if w.answered() && q.peer.ReadsOut == 0 {
		w.status = rdmatransport.StatusLocalOperation
	}
	if w.status != rdmatransport.StatusSuccess {
		if r.cur == q.sq.head {
			q.failSend(w.status)
		}
		return false
	}
	n := (w.length + uint32(q.peer.PathMTU) - 1) / uint32(q.peer.PathMTU)
	switch {
	case w.op == rdmatransport.OpBindWindow || w.op == rdmatransport.OpInvalidate:
		n = 0
	case n == 0 || w.op == rdmatransport.OpCompareSwap || w.op == rdmatransport.OpFetchAdd:
		n = 1
	}
	if r.next.Diff(r.acked) > maxSpan {
		return false
	}
	w.first, w.packets, w.part, w.started = r.next, n, q.partOf(w, n), true
	return true
}

// partOf returns the number of bytes in each of w's n packets except the last. A SEND of a few packets to a softroce
// peer is divided equally. Consecutive SENDs, such as commands with 4 KiB of data, then go out in one send with
// segmentation; a full packet and a short one would take a send each.
func (q *QP) partOf(w *sendWQE, n uint32) uint32 {
	if q.peer.Own && w.op == rdmatransport.OpSend && n > 1 && n <= maxEqualParts {
		return ((w.length+n-1)/n + 3) &^ 3
	}
	return uint32(q.peer.PathMTU)
}

// finishLocal moves past a request without packets.
func (q *QP) finishLocal() {
	q.req.cur++
	q.req.off = 0
	q.ackTo(q.req.acked)
	q.complete()
}

func (q *QP) sendData(now time.Duration, o *Outbox, w *sendWQE) bool {
	r := &q.req
	// The peer cannot hold more after a gap.
	if r.missing() && r.next.Diff(r.acked) >= maxHeldPerQP {
		return false
	}
	if !q.emitData(now, o, r.cur, r.off, false) {
		return false
	}
	if r.off++; r.off == w.packets {
		r.cur++
		r.off = 0
	}
	return true
}

// emitData emits packet off of request i.
func (q *QP) emitData(now time.Duration, o *Outbox, i, off uint32, again bool) bool {
	r, w := &q.req, q.sq.at(i)
	at := off * w.part
	n := min(w.part, w.length-at)
	cost := int(n) + packetCost
	if !r.probing && !q.rtt.sends.allows(r.inflight, cost) {
		return false
	}
	if q.rate.on && !q.paced(now, cost) {
		return false
	}
	last := off == w.packets-1
	out := o.start()
	gather(out, q.sq.sgl(i), at, n)
	h := q.header(w.first.Add(off))
	split := q.splits(w)
	h.Opcode = dataOpcode(w, split || off == 0, split || last)
	// The last packet that the window allows must ask for an ACK; otherwise nothing would open the window again.
	h.AckReq = again || last && q.wantsAck(w) || r.unasked == ackEvery-1 || r.probing || r.inflight+2*cost > q.rtt.sends.window
	if r.unasked++; h.AckReq {
		r.unasked = 0
	}
	h.Solicited = last && w.flags&rdmatransport.FlagSolicited != 0
	switch {
	case split:
		h.RETH = wire.RETH{VA: w.remote + uint64(at), RKey: w.rkey, DMALen: n}
	case w.op == rdmatransport.OpWrite && off == 0:
		h.RETH = wire.RETH{VA: w.remote, RKey: w.rkey, DMALen: w.length}
	}
	if last {
		h.Imm, h.InvKey = w.imm, w.invKey
	}
	out.finish(&h)
	r.inflight += cost
	q.sent(now, h.PSN, 1, h.AckReq)
	return true
}

// splits reports whether each packet of w is sent as an RDMA WRITE of its own. All packets then have the same headers
// and length, so that one send with segmentation takes as many as it can, across requests; the headers of First and
// Middle packets differ. This is done only towards a softroce peer: others may count messages.
func (q *QP) splits(w *sendWQE) bool {
	const with = rdmatransport.FlagRelaxed | rdmatransport.FlagImmediate
	return q.peer.Own && w.op == rdmatransport.OpWrite && w.flags&with == rdmatransport.FlagRelaxed
}

// wantsAck reports whether the last packet of w asks for an ACK. Towards a foreign peer all do, except a WRITE
// directly before data that asks instead. A softroce peer acknowledges without being asked, but later, which is
// enough if no completion is waited for.
func (q *QP) wantsAck(w *sendWQE) bool {
	if q.peer.Own {
		return w.flags&(rdmatransport.FlagSignaled|rdmatransport.FlagRelaxed) == rdmatransport.FlagSignaled
	}
	if w.op != rdmatransport.OpWrite || w.flags&rdmatransport.FlagSignaled != 0 || q.req.cur+1 == q.sq.tail {
		return true
	}
	next := q.sq.at(q.req.cur + 1)
	follows := next.op == rdmatransport.OpSend || next.op == rdmatransport.OpWrite
	return !follows || next.flags&rdmatransport.FlagFence != 0
}

// sendReadOrAtomic emits the request for the next piece of a READ, or an atomic.
func (q *QP) sendReadOrAtomic(now time.Duration, o *Outbox, w *sendWQE) bool {
	r := &q.req
	n := min(r.piece-r.off%r.piece, w.packets-r.off)
	if q.responsesMissing() && r.next.Add(n).Diff(q.oldestMissing()) > maxHeldPerQP {
		return false // further responses could not be held after the gap
	}
	bytes := int(n) * q.peer.PathMTU
	if q.peer.Own {
		// Successive pieces reveal losses in the one before.
		bytes = min(bytes, q.rtt.reads.window/2)
	}
	if !q.rtt.reads.allows(r.reading, bytes) {
		return false
	}
	if r.off >= w.issued {
		cost := int(n) * truesize(q.peer.PathMTU)
		if r.readsOut >= q.peer.ReadsOut {
			return false
		}
		if !q.cfg.Budget.take(cost) {
			r.blocked = true
			return false
		}
		if r.budgeted == 0 {
			r.moved = now
		}
		r.budgeted += cost
		r.readsOut++
		w.issued = r.off + n
	}
	q.requestResponses(now, o, w, r.off, n)
	r.off += n
	if r.off == w.packets {
		r.cur++
		r.off = 0
	}
	return true
}

// requestResponses emits the request for n response packets of w from off on.
func (q *QP) requestResponses(now time.Duration, o *Outbox, w *sendWQE, off, n uint32) {
	mtu := uint32(q.peer.PathMTU)
	h := q.header(w.first.Add(off))
	h.AckReq = true
	switch w.op {
	case rdmatransport.OpRead:
		h.Opcode = wire.RCReadRequest
		at := off * mtu
		h.RETH = wire.RETH{VA: w.remote + uint64(at), RKey: w.rkey, DMALen: min(n*mtu, w.length-at)}
	case rdmatransport.OpCompareSwap:
		h.Opcode = wire.RCCompareSwap
		h.AtomicETH = wire.AtomicETH{VA: w.remote, RKey: w.rkey, SwapAdd: w.operand, Compare: w.compare}
	default:
		h.Opcode = wire.RCFetchAdd
		h.AtomicETH = wire.AtomicETH{VA: w.remote, RKey: w.rkey, SwapAdd: w.operand}
	}
	o.start().finish(&h)
	q.req.reading += int(n) * q.peer.PathMTU
	q.sent(now, h.PSN, n, true)
}

// startReread begins to request missing responses again, after a foreign peer has acknowledged later packets.
func (q *QP) startReread() {
	r := &q.req
	w := q.awaiting()
	if w == nil {
		return
	}
	r.reread, r.againIdx, r.againOff = true, r.respIdx, w.received
	r.reading = 0
}

// sendReread requests the next piece again, up to where the cursor itself repeats packets. It returns false if the
// window does not allow it. Responses held after the gap have arrived, so one piece is enough then.
func (q *QP) sendReread(now time.Duration, o *Outbox) bool {
	r := &q.req
	w := q.sq.at(r.againIdx)
	if r.againIdx == q.sq.tail || !w.started || !w.first.Add(r.againOff).Before(r.acked) {
		r.reread = false
		return true
	}
	off := max(r.againOff, w.received)
	if !w.answered() || off >= w.issued {
		r.againIdx++
		r.againOff = 0
		return true
	}
	n := min(r.piece-off%r.piece, w.issued-off)
	_, held := r.held.first()
	if !q.rtt.reads.allows(r.reading, int(n)*q.peer.PathMTU) {
		return false
	}
	q.requestResponses(now, o, w, off, n)
	r.againOff = off + n
	r.reread = !held
	return true
}

// sent records that n PSNs from psn on were sent.
func (q *QP) sent(now time.Duration, psn wire.PSN, n uint32, ackReq bool) {
	r := &q.req
	if psn == r.next {
		if r.next == r.acked && q.awaiting() == nil {
			r.lastHeard = now
		}
		r.next = psn.Add(n)
		if ackReq {
			q.rtt.startSample(now, psn)
		}
	} else {
		q.cfg.Counters.Retransmits++
		q.rtt.cancelSample(psn, q.peer.Own)
	}
	q.rtt.sends.meter.count(1, 0)
	r.probed = true
	if !q.timer.running(timerRetry) {
		q.timer.set(timerRetry, now+q.rtt.timeout())
	}
}

// rewind moves the cursor back to the first unacknowledged packet.
func (q *QP) rewind() {
	r := &q.req
	r.cur, r.inflight, r.reading = r.ackIdx, 0, 0
	r.off = 0
	if r.cur != q.sq.tail && q.sq.at(r.cur).started {
		r.off = uint32(r.acked.Diff(q.sq.at(r.cur).first))
	}
}

// header returns the header fields that all packets of this queue pair have in common.
func (q *QP) header(psn wire.PSN) wire.Packet {
	return wire.Packet{DestQPN: q.peer.QPN, PKey: q.peer.PKey, PSN: psn}
}

// gather adds n payload bytes from offset at of a scatter list.
func gather(out *Out, sgl []rdmatransport.SGE, at, n uint32) {
	for i := range sgl {
		b := sgl[i].Buf
		if at >= uint32(len(b)) {
			at -= uint32(len(b))
			continue
		}
		b = b[at:]
		b = b[:min(n, uint32(len(b)))]
		out.add(b)
		if n -= uint32(len(b)); n == 0 {
			return
		}
		at = 0
	}
}

// dataOpcode returns the opcode of a SEND or WRITE packet.
func dataOpcode(w *sendWQE, first, last bool) wire.Opcode {
	set := &sendOpcodes
	if w.op == rdmatransport.OpWrite {
		set = &writeOpcodes
	}
	switch {
	case !last && first:
		return set.first
	case !last:
		return set.middle
	case first:
		return set.only[variant(w)]
	}
	return set.last[variant(w)]
}

// variant returns 1 with immediate data, 2 with invalidation, and 0 otherwise.
func variant(w *sendWQE) int {
	switch {
	case w.flags&rdmatransport.FlagImmediate != 0:
		return 1
	case w.flags&rdmatransport.FlagInvalidate != 0 && w.op == rdmatransport.OpSend:
		return 2
	}
	return 0
}

type opcodeSet struct {
	first, middle wire.Opcode
	last, only    [3]wire.Opcode
}

var (
	sendOpcodes = opcodeSet{wire.RCSendFirst, wire.RCSendMiddle,
		[3]wire.Opcode{wire.RCSendLast, wire.RCSendLastImm, wire.RCSendLastInv},
		[3]wire.Opcode{wire.RCSendOnly, wire.RCSendOnlyImm, wire.RCSendOnlyInv}}
	writeOpcodes = opcodeSet{wire.RCWriteFirst, wire.RCWriteMiddle,
		[3]wire.Opcode{wire.RCWriteLast, wire.RCWriteLastImm, wire.RCWriteLast},
		[3]wire.Opcode{wire.RCWriteOnly, wire.RCWriteOnlyImm, wire.RCWriteOnly}}
)
