package rc

import (
	"errors"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// MaxInline is the maximum size, in bytes, of an inline send.
const MaxInline = 128

// MaxMessage is the maximum size, in bytes, of a message. At path MTU 256 it spans a quarter of the PSN space, so
// that acknowledgements stay unambiguous.
const MaxMessage = 1 << 30

// sendWQE is a posted send request. Its packets have the PSNs first to first+packets-1, assigned when the first of
// them is sent. A request without packets (bind, invalidate) has no PSN.
type sendWQE struct {
	id       uint64
	op       rdmatransport.Opcode
	flags    rdmatransport.SendFlags
	nsge     uint8
	started  bool
	status   rdmatransport.Status // of requests that fail locally, found when posted
	length   uint32
	first    wire.PSN
	packets  uint32
	part     uint32 // payload bytes of each packet but the last
	received uint32 // READ, atomic: response packets consumed
	issued   uint32 // READ: response packets requested so far

	remote  uint64
	rkey    rdmatransport.RKey
	imm     uint32
	invKey  rdmatransport.RKey
	compare uint64
	operand uint64
}

// answered reports whether the request completes by a response, not by an ACK.
func (w *sendWQE) answered() bool {
	return w.op == rdmatransport.OpRead || w.op == rdmatransport.OpCompareSwap || w.op == rdmatransport.OpFetchAdd
}

// sendQueue is a ring of requests. head is the oldest one that has not completed.
type sendQueue struct {
	ring       []sendWQE
	sges       []rdmatransport.SGE
	inline     []byte // MaxInline bytes per slot; allocated on first use
	maxSGE     int
	depth      int
	mask       uint32
	head, tail uint32
}

func (s *sendQueue) init(depth, maxSGE int) {
	n := slots(depth)
	s.ring, s.sges = make([]sendWQE, n), make([]rdmatransport.SGE, n*maxSGE)
	s.depth, s.maxSGE, s.mask = depth, maxSGE, uint32(n-1)
}

func (s *sendQueue) at(i uint32) *sendWQE { return &s.ring[i&s.mask] }

func (s *sendQueue) sgl(i uint32) []rdmatransport.SGE {
	base := int(i&s.mask) * s.maxSGE
	return s.sges[base : base+int(s.at(i).nsge)]
}

func (s *sendQueue) oldest() *sendWQE {
	if s.head == s.tail {
		return nil
	}
	return s.at(s.head)
}

func (s *sendQueue) pop() {
	clear(s.sgl(s.head))
	s.head++
}

// Errors of posts, which are mistakes of the caller.
var (
	errState  = errors.New("rc: queue pair is not connected")
	errSGE    = errors.New("rc: scatter list is longer than the queue pair's limit")
	errInline = errors.New("rc: inline data is longer than the device's limit")
	errOp     = errors.New("rc: operation cannot be posted to a send queue")
	errLength = errors.New("rc: message is longer than 2^30 bytes")
	errAtomic = errors.New("rc: an atomic needs a scatter list of exactly 8 bytes")
)

// PostSend queues all requests or none. In the error state they complete as flushed.
func (q *QP) PostSend(wrs []rdmatransport.SendWR) error {
	if q.state != StateConnected && q.state != StateError {
		return errState
	}
	if int(q.sq.tail-q.sq.head)+len(wrs) > q.sq.depth {
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if err := q.checkSend(&wrs[i]); err != nil {
			return err
		}
	}
	for i := range wrs {
		q.pushSend(&wrs[i])
	}
	if q.state == StateError {
		q.flushQueues()
	}
	return nil
}

func (q *QP) checkSend(wr *rdmatransport.SendWR) error {
	length := sglLength(wr.SGL)
	switch {
	case wr.Op > rdmatransport.OpInvalidate:
		return errOp
	case len(wr.SGL) > q.sq.maxSGE:
		return errSGE
	case wr.Flags&rdmatransport.FlagInline != 0 && length > MaxInline:
		return errInline
	case length > MaxMessage:
		return errLength
	case (wr.Op == rdmatransport.OpCompareSwap || wr.Op == rdmatransport.OpFetchAdd) && length != 8:
		return errAtomic
	}
	return nil
}

func sglLength(sgl []rdmatransport.SGE) (n uint64) {
	for i := range sgl {
		n += uint64(len(sgl[i].Buf))
	}
	return n
}

func (q *QP) pushSend(wr *rdmatransport.SendWR) {
	i := q.sq.tail
	q.sq.tail++
	w := q.sq.at(i)
	*w = sendWQE{
		id: wr.ID, op: wr.Op, flags: wr.Flags, nsge: uint8(len(wr.SGL)), length: uint32(sglLength(wr.SGL)),
		remote: wr.RemoteAddr, rkey: wr.RKey, imm: wr.Imm, invKey: wr.InvalidateKey,
		compare: wr.Compare, operand: wr.Operand,
	}
	copy(q.sq.sgl(i), wr.SGL)
	switch {
	case wr.Op == rdmatransport.OpBindWindow:
		w.nsge, w.length = 0, 0
		if len(wr.SGL) != 1 || !q.cfg.Keys.Bind(wr.Window, wr.SGL[0], wr.Access) {
			w.status = rdmatransport.StatusBindError
		}
	case wr.Op == rdmatransport.OpInvalidate && !q.cfg.Keys.Live(wr.InvalidateKey):
		// This is checked here, since binds change keys when they are posted, including binds posted later.
		w.status = rdmatransport.StatusLocalOperation
	case wr.Flags&rdmatransport.FlagInline != 0:
		q.sq.copyInline(i)
	default:
		w.status = q.checkLocalKeys(i, w)
		if w.nsge > 0 && !w.answered() {
			wire.Prefetch(wr.SGL[0].Buf) // prefetched while the other requests of this turn are posted
		}
	}
}

func (q *QP) checkLocalKeys(i uint32, w *sendWQE) rdmatransport.Status {
	for _, s := range q.sq.sgl(i) {
		if !q.cfg.Keys.Local(s.LKey, s.Buf, w.answered()) {
			return rdmatransport.StatusLocalProtection
		}
	}
	return rdmatransport.StatusSuccess
}

// MoveSource makes outstanding SENDs and WRITEs with that identifier read from to instead of from, which has the same
// length and content.
func (q *QP) MoveSource(id uint64, from []byte, to rdmatransport.SGE) bool {
	if len(from) != len(to.Buf) || !q.cfg.Keys.Local(to.LKey, to.Buf, false) {
		return false
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(from)))
	for i := q.sq.head; i != q.sq.tail; i++ {
		w := q.sq.at(i)
		if w.id != id || w.answered() {
			continue
		}
		for j := range q.sq.sgl(i) {
			s := &q.sq.sgl(i)[j]
			at := uintptr(unsafe.Pointer(unsafe.SliceData(s.Buf))) - base
			if n := uintptr(len(s.Buf)); n > 0 && at < uintptr(len(from)) {
				*s = rdmatransport.SGE{Buf: to.Buf[at : at+n : at+n], LKey: to.LKey}
			}
		}
	}
	return true
}

// copyInline replaces the scatter list of slot i by a copy of its bytes.
func (s *sendQueue) copyInline(i uint32) {
	if s.inline == nil {
		s.inline = make([]byte, len(s.ring)*MaxInline)
	}
	base := int(i&s.mask) * MaxInline
	buf := s.inline[base : base : base+MaxInline]
	for _, e := range s.sgl(i) {
		buf = append(buf, e.Buf...)
	}
	clear(s.sgl(i))
	s.at(i).nsge = min(1, uint8(len(buf)))
	if len(buf) > 0 {
		s.sgl(i)[0].Buf = buf
	}
}

type recvWQE struct {
	id   uint64
	nsge uint8
}

// recvQueue is a ring of posted receives. head is the one that the current or next message fills.
type recvQueue struct {
	ring       []recvWQE
	sges       []rdmatransport.SGE
	maxSGE     int
	depth      int
	mask       uint32
	head, tail uint32
}

func (r *recvQueue) init(depth, maxSGE int) {
	n := slots(depth)
	r.ring, r.sges = make([]recvWQE, n), make([]rdmatransport.SGE, n*maxSGE)
	r.depth, r.maxSGE, r.mask = depth, maxSGE, uint32(n-1)
}

func (r *recvQueue) oldest() *recvWQE {
	if r.head == r.tail {
		return nil
	}
	return &r.ring[r.head&r.mask]
}

func (r *recvQueue) sgl() []rdmatransport.SGE {
	base := int(r.head&r.mask) * r.maxSGE
	return r.sges[base : base+int(r.ring[r.head&r.mask].nsge)]
}

func (r *recvQueue) pop() {
	clear(r.sgl())
	r.head++
}

func (r *recvQueue) push(id uint64, sgl []rdmatransport.SGE) {
	slot := r.tail & r.mask
	r.tail++
	r.ring[slot] = recvWQE{id: id, nsge: uint8(len(sgl))}
	copy(r.sges[int(slot)*r.maxSGE:], sgl)
}

// post queues all receives or none.
func (r *recvQueue) post(wrs []rdmatransport.RecvWR) error {
	if int(r.tail-r.head)+len(wrs) > r.depth {
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if len(wrs[i].SGL) > r.maxSGE {
			return errSGE
		}
	}
	for i := range wrs {
		r.push(wrs[i].ID, wrs[i].SGL)
	}
	return nil
}

// PostRecv queues all receives or none.
func (q *QP) PostRecv(wrs []rdmatransport.RecvWR) error {
	switch {
	case q.cfg.Shared != nil:
		return rdmatransport.ErrSharedRecv
	case q.state == StateMoved:
		return errState
	}
	if err := q.rq.post(wrs); err != nil {
		return err
	}
	if q.state == StateError {
		q.flushQueues()
	}
	return nil
}
