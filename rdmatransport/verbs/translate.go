//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A work request's ID for the device consists of the queue pair's serial number, the queue (send or receive), and the
// request's sequence number. Queue pair numbers are not used, since the device may reuse one while completions of its
// last owner are queued.
const receiveBit = 1 << 31

func (q *queuePair) workID(s sequence, receive bool) C.uint64_t {
	id := uint64(q.serial)<<32 | uint64(s)
	if receive {
		id |= receiveBit
	}
	return C.uint64_t(id)
}

// translate converts a completion of the device. The returned queue pair is nil if it is closed. The completion is
// nil if the request is internal, or if the queue pair is closed and it is not a shared receive.
func (c *completionQueue) translate(w *C.struct_nv_wc) (*queuePair, *rdmatransport.Completion) {
	q := c.qps[uint32(w.wr_id>>32)]
	if q == nil {
		if s := c.shared[uint32(w.wr_id>>32)]; s != nil {
			return s.translate(w)
		}
		return nil, nil
	}
	receive, s := w.wr_id&receiveBit != 0, sequence(w.wr_id&sequenceMask)
	r := &q.send
	if receive {
		r = &q.recv
	}
	e, ok := r.complete(s)
	if !ok {
		return q, nil
	}
	done := &c.done
	*done = rdmatransport.Completion{ID: e.id, QPN: q.qpn, Op: e.op, Bytes: e.bytes, Status: statusOf(w.status)}
	switch {
	case done.Status != rdmatransport.StatusSuccess:
		done.Bytes = 0
		kept := *done
		q.failed(kept.Status, w, receive)
		*done = kept
	case receive:
		q.received(done, w)
	}
	if e.internal {
		return q, nil
	}
	return q, done
}

// received sets the fields of a receive's completion.
func (q *queuePair) received(done *rdmatransport.Completion, w *C.struct_nv_wc) {
	done.Bytes = uint32(w.byte_len)
	if w.write_imm != 0 {
		done.Op = rdmatransport.OpRecvWriteImm
	}
	if w.has_imm != 0 {
		done.Flags |= rdmatransport.HasImmediate
		done.Imm = uint32(w.imm)
	}
	if w.has_inv != 0 {
		done.Flags |= rdmatransport.HasInvalidated
		done.InvalidatedKey = rdmatransport.RKey(w.imm)
		q.invalidated(done.InvalidatedKey)
	}
}

// failed ends the queue pair because of the first failed request. A flushed receive may be seen before the failed
// send that caused it, so failed then looks at the sends first. It may overwrite the completion queue's done.
func (q *queuePair) failed(status rdmatransport.Status, w *C.struct_nv_wc, receive bool) {
	if receive && !q.ended && status == rdmatransport.StatusFlushed {
		q.cq.loadSends()
	}
	if q.ended {
		return
	}
	if status == rdmatransport.StatusFlushed { // otherwise the queue pair would have ended first
		q.fail(fmt.Errorf("verbs: the device has put queue pair %d into the error state without a reason", q.qpn))
		return
	}
	q.fail(fmt.Errorf("verbs: work request failed on queue pair %d: %v (vendor code %#x)", q.qpn, status, uint32(w.vendor_err)))
}

// statusOf converts the shim's status.
func statusOf(s C.uint8_t) rdmatransport.Status {
	switch s {
	case C.NV_WC_SUCCESS:
		return rdmatransport.StatusSuccess
	case C.NV_WC_FLUSHED:
		return rdmatransport.StatusFlushed
	case C.NV_WC_LOCAL_LENGTH:
		return rdmatransport.StatusLocalLength
	case C.NV_WC_LOCAL_PROTECTION:
		return rdmatransport.StatusLocalProtection
	case C.NV_WC_BIND:
		return rdmatransport.StatusBindError
	case C.NV_WC_BAD_RESPONSE:
		return rdmatransport.StatusBadResponse
	case C.NV_WC_REMOTE_INVALID:
		return rdmatransport.StatusRemoteInvalidRequest
	case C.NV_WC_REMOTE_ACCESS:
		return rdmatransport.StatusRemoteAccess
	case C.NV_WC_REMOTE_OPERATION:
		return rdmatransport.StatusRemoteOperation
	case C.NV_WC_RETRY:
		return rdmatransport.StatusRetryExceeded
	case C.NV_WC_RNR_RETRY:
		return rdmatransport.StatusRNRRetryExceeded
	}
	return rdmatransport.StatusLocalOperation
}
