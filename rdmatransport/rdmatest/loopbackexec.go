package rdmatest

import (
	"encoding/binary"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// execute executes the requests in the send queue, as far as the peer has receives for them.
func (q *queuePair) execute() {
	for q.state == qpConnected && q.send.pending > 0 {
		wr := q.send.head()
		status, stalled := q.perform(wr)
		if stalled {
			return
		}
		if status != rdmatransport.StatusSuccess {
			q.fail(wr, status)
			return
		}
		q.unsignaledCompleted++
		if wr.Flags&rdmatransport.FlagSignaled != 0 {
			q.taken -= q.unsignaledCompleted
			q.unsignaledCompleted = 0
			q.complete(wr, rdmatransport.StatusSuccess)
		}
		q.send.pop()
	}
}

func (q *queuePair) complete(wr *rdmatransport.SendWR, s rdmatransport.Status) {
	c := rdmatransport.Completion{ID: wr.ID, QPN: q.qpn, Op: wr.Op, Status: s}
	if wr.Op == rdmatransport.OpRead && s == rdmatransport.StatusSuccess {
		c.Bytes = uint32(length(wr.SGL))
	}
	q.cq.complete(c)
}

func (q *queuePair) perform(wr *rdmatransport.SendWR) (s rdmatransport.Status, stalled bool) {
	write := wr.Op == rdmatransport.OpRead || wr.Op == rdmatransport.OpCompareSwap || wr.Op == rdmatransport.OpFetchAdd
	inline := wr.Flags&rdmatransport.FlagInline != 0
	if wr.Op != rdmatransport.OpBindWindow && !inline && !q.domain.local(wr.SGL, write) {
		return rdmatransport.StatusLocalProtection, false
	}
	switch wr.Op {
	case rdmatransport.OpSend:
		return q.performSend(wr)
	case rdmatransport.OpWrite:
		return q.performWrite(wr)
	case rdmatransport.OpRead:
		return q.performRead(wr), false
	case rdmatransport.OpCompareSwap, rdmatransport.OpFetchAdd:
		return q.performAtomic(wr), false
	case rdmatransport.OpBindWindow:
		if wr.Window == nil {
			return rdmatransport.StatusBindError, false
		}
		return rdmatransport.StatusSuccess, false
	case rdmatransport.OpInvalidate:
		if wr.InvalidateKey == 0 {
			return rdmatransport.StatusLocalOperation, false
		}
		q.invalidate(wr.InvalidateKey)
		return rdmatransport.StatusSuccess, false
	}
	return rdmatransport.StatusLocalOperation, false
}

func (q *queuePair) performSend(wr *rdmatransport.SendWR) (s rdmatransport.Status, stalled bool) {
	p := q.peer
	r := p.receive()
	if r == nil {
		return 0, true // receiver not ready
	}
	n := length(wr.SGL)
	c := rdmatransport.Completion{ID: r.ID, QPN: p.qpn, Op: rdmatransport.OpRecv, Bytes: uint32(n)}
	switch {
	case n > length(r.SGL):
		c.Status = rdmatransport.StatusLocalLength
		s = rdmatransport.StatusRemoteInvalidRequest
	case !p.domain.local(r.SGL, true):
		c.Status = rdmatransport.StatusLocalProtection
		s = rdmatransport.StatusRemoteOperation
	case wr.Flags&rdmatransport.FlagInvalidate != 0 && !p.invalidate(wr.InvalidateKey):
		c.Status = rdmatransport.StatusLocalProtection
		s = rdmatransport.StatusRemoteAccess
	}
	if s != rdmatransport.StatusSuccess {
		p.cq.complete(c)
		p.recv.pop()
		return s, false
	}
	transfer(r.SGL, wr.SGL)
	if wr.Flags&rdmatransport.FlagInvalidate != 0 {
		c.Flags |= rdmatransport.HasInvalidated
		c.InvalidatedKey = wr.InvalidateKey
	}
	p.deliver(wr, c)
	return s, false
}

// deliver completes a receive.
func (p *queuePair) deliver(wr *rdmatransport.SendWR, c rdmatransport.Completion) {
	if wr.Flags&rdmatransport.FlagImmediate != 0 {
		c.Flags |= rdmatransport.HasImmediate
		c.Imm = wr.Imm
	}
	p.cq.complete(c)
	p.recv.pop()
}

func (q *queuePair) performWrite(wr *rdmatransport.SendWR) (s rdmatransport.Status, stalled bool) {
	p, n := q.peer, length(wr.SGL)
	immediate := wr.Flags&rdmatransport.FlagImmediate != 0
	if immediate && p.receive() == nil {
		return 0, true
	}
	mem, ok := p.remote(wr.RKey, wr.RemoteAddr, n, rdmatransport.AccessRemoteWrite)
	if !ok {
		return rdmatransport.StatusRemoteAccess, false
	}
	gather(mem, wr.SGL)
	if immediate {
		r := p.recv.head()
		p.deliver(wr, rdmatransport.Completion{ID: r.ID, QPN: p.qpn, Op: rdmatransport.OpRecvWriteImm, Bytes: uint32(n)})
	}
	return s, false
}

func (q *queuePair) performRead(wr *rdmatransport.SendWR) rdmatransport.Status {
	if q.readsOut == 0 {
		return rdmatransport.StatusRemoteInvalidRequest
	}
	mem, ok := q.peer.remote(wr.RKey, wr.RemoteAddr, length(wr.SGL), rdmatransport.AccessRemoteRead)
	if !ok {
		return rdmatransport.StatusRemoteAccess
	}
	scatter(wr.SGL, mem)
	return rdmatransport.StatusSuccess
}

func (q *queuePair) performAtomic(wr *rdmatransport.SendWR) rdmatransport.Status {
	if length(wr.SGL) != 8 {
		return rdmatransport.StatusLocalLength
	}
	mem, ok := q.peer.remote(wr.RKey, wr.RemoteAddr, 8, rdmatransport.AccessRemoteAtomic)
	switch {
	case !ok:
		return rdmatransport.StatusRemoteAccess
	case wr.RemoteAddr%8 != 0:
		return rdmatransport.StatusRemoteInvalidRequest
	}
	old := binary.NativeEndian.Uint64(mem)
	switch {
	case wr.Op == rdmatransport.OpFetchAdd:
		binary.NativeEndian.PutUint64(mem, old+wr.Operand)
	case old == wr.Compare:
		binary.NativeEndian.PutUint64(mem, wr.Operand)
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], old)
	scatter(wr.SGL, b[:])
	return rdmatransport.StatusSuccess
}

// fail ends both sides because of a failed work request.
func (q *queuePair) fail(wr *rdmatransport.SendWR, s rdmatransport.Status) {
	q.complete(wr, s)
	q.send.pop()
	err := &failure{s}
	q.state, q.err = qpError, err
	q.flush()
	if p := q.peer; p != nil && p.state == qpConnected {
		p.state, p.err = qpError, err
		p.flush()
	}
}

type failure struct{ status rdmatransport.Status }

func (f *failure) Error() string { return "connection failed: " + f.status.String() }

// end is an orderly end by this side.
func (q *queuePair) end(err error) {
	if q.state == qpClosed || q.state == qpError {
		return
	}
	connected := q.state == qpConnected
	q.state, q.err = qpError, err
	q.flush()
	if p := q.peer; connected && p.state == qpConnected {
		p.state, p.err = qpError, rdmatransport.ErrDisconnected
		p.flush()
	}
}

// flush completes all posted requests, once each.
func (q *queuePair) flush() {
	for wr := q.send.head(); wr != nil; wr = q.send.head() {
		q.complete(wr, rdmatransport.StatusFlushed)
		q.send.pop()
	}
	q.taken, q.unsignaledCompleted = 0, 0
	for r := q.recv.head(); r != nil; r = q.recv.head() {
		q.cq.complete(rdmatransport.Completion{
			ID: r.ID, QPN: q.qpn, Op: rdmatransport.OpRecv, Status: rdmatransport.StatusFlushed,
		})
		q.recv.pop()
	}
	if q.shared != nil && !q.endReported {
		q.endReported = true
		q.cq.complete(rdmatransport.Completion{
			ID: q.cfg.EndID, QPN: q.qpn, Op: rdmatransport.OpSend, Status: rdmatransport.StatusFlushed,
		})
	}
}
