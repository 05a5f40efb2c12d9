//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var (
	errNotConnected = errors.New("verbs: send posted before the connection is made")
	errNotOurs      = errors.New("verbs: bind of a window that is closed or belongs to another queue pair")
	errBindDMABuf   = errors.New("verbs: a memory window cannot be bound to a dma-buf")
	errBindEmpty    = errors.New("verbs: bind without one element of memory that is registered in the queue pair's domain")
)

// PostSend implements rdmatransport.QueuePair.
func (q *queuePair) PostSend(wrs []rdmatransport.SendWR) error {
	if err := q.checkSends(wrs); err != nil || len(wrs) == 0 {
		return err
	}
	if q.ended {
		for i := range wrs {
			q.send.wait(entry{id: wrs[i].ID, op: wrs[i].Op})
		}
		q.flushWaiting()
		return nil
	}
	q.startChain()
	for i := range wrs {
		q.addSend(&wrs[i])
	}
	q.submit()
	runtime.KeepAlive(wrs) // the device has only addresses
	q.flushWaiting()
	return nil
}

func (q *queuePair) checkSends(wrs []rdmatransport.SendWR) error {
	switch {
	case q.closed:
		return rdmatransport.ErrClosed
	case !q.connected && !q.ended:
		return errNotConnected
	case q.send.users+len(wrs) > q.maxSend:
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if err := q.checkSend(&wrs[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkSend returns an error if a request is invalid.
func (q *queuePair) checkSend(wr *rdmatransport.SendWR) error {
	a := &q.cq.dev.attrs
	n := total(wr.SGL)
	switch {
	case len(wr.SGL) > q.maxSGE:
		return fmt.Errorf("verbs: send of %d elements, limit %d", len(wr.SGL), q.maxSGE)
	case wr.Op == rdmatransport.OpRead && len(wr.SGL) > a.MaxReadSGE:
		return fmt.Errorf("verbs: RDMA READ into %d elements, limit %d of %s", len(wr.SGL), a.MaxReadSGE, a.Name)
	case wr.Op > rdmatransport.OpInvalidate:
		return fmt.Errorf("verbs: operation %d cannot be posted", wr.Op)
	case wr.Flags&rdmatransport.FlagInline != 0 && n > a.MaxInline:
		return fmt.Errorf("verbs: inline send of %d bytes, limit %d", n, a.MaxInline)
	case wr.Op != rdmatransport.OpBindWindow && n > a.MaxMessage:
		return fmt.Errorf("verbs: message of %d bytes, limit %d", n, a.MaxMessage)
	case wr.Flags&rdmatransport.FlagImmediate != 0 && !a.Immediate:
		return fmt.Errorf("verbs: %s is an iWARP device, which has no immediate data", a.Name)
	case wr.Op == rdmatransport.OpBindWindow:
		return q.checkBind(wr)
	}
	return nil
}

func (q *queuePair) checkBind(wr *rdmatransport.SendWR) error {
	w, ok := wr.Window.(*window)
	if !ok || w.qp != q || w.mw == nil {
		return errNotOurs
	}
	if len(wr.SGL) != 1 || len(wr.SGL[0].Buf) == 0 || q.regionOf(wr) == nil {
		return errBindEmpty
	}
	if q.regionOf(wr).mem == nil {
		return errBindDMABuf
	}
	return nil
}

func (q *queuePair) regionOf(wr *rdmatransport.SendWR) *region {
	return (*q.domain.regions.Load())[wr.SGL[0].LKey]
}

func total(sgl []rdmatransport.SGE) (n int) {
	for i := range sgl {
		n += len(sgl[i].Buf)
	}
	return n
}

func (q *queuePair) startChain() {
	c := q.cq
	c.sends, c.sges = c.sends[:0], c.sges[:0]
	c.chain++
}

// addSend adds a request to the chain, preceded by an invalidation if it needs one.
func (q *queuePair) addSend(wr *rdmatransport.SendWR) {
	c := q.cq
	e := entry{id: wr.ID, op: wr.Op, relaxed: wr.Flags&rdmatransport.FlagRelaxed != 0}
	out := C.struct_nv_send{
		op: sendOps[wr.Op], flags: sendFlags(wr.Flags), remote_addr: C.uint64_t(wr.RemoteAddr), rkey: C.uint32_t(wr.RKey),
		compare: C.uint64_t(wr.Compare), operand: C.uint64_t(wr.Operand), imm: C.uint32_t(wr.Imm),
	}
	switch {
	case wr.Op == rdmatransport.OpBindWindow:
		q.prepareBind(wr, &out)
	case wr.Op == rdmatransport.OpInvalidate || wr.Flags&rdmatransport.FlagInvalidate != 0:
		out.imm = C.uint32_t(wr.InvalidateKey)
	}
	switch wr.Op {
	case rdmatransport.OpBindWindow:
	case rdmatransport.OpInvalidate:
		q.invalidated(wr.InvalidateKey)
	default:
		if wr.Op == rdmatransport.OpRead {
			e.bytes = uint32(total(wr.SGL))
		}
		out.first_sge, out.sges = c.addSGL(wr.SGL)
	}
	out.wr_id = q.workID(q.send.push(e), false)
	c.sends = append(c.sends, out)
}

// prepareBind invalidates the window if it is bound, since a bound window cannot be bound again (IBTA volume 1,
// 10.6.7.2.6), and gives it its next key. The device's object has room for one new key per chain.
func (q *queuePair) prepareBind(wr *rdmatransport.SendWR, out *C.struct_nv_send) {
	c, w, r := q.cq, wr.Window.(*window), q.regionOf(wr)
	if w.chain == c.chain {
		q.submit()
		q.startChain()
	}
	if w.bound {
		s := q.send.push(entry{internal: true})
		c.sends = append(c.sends, C.struct_nv_send{wr_id: q.workID(s, false), op: C.NV_INVALIDATE, imm: C.uint32_t(w.key)})
	}
	w.key, w.iova, w.bound, w.chain = w.next(), address(wr.SGL[0].Buf), true, c.chain
	out.mw, out.mr, out.rkey = C.uintptr_t(uintptr(unsafe.Pointer(w.mw))), C.uintptr_t(uintptr(unsafe.Pointer(r.mr))), C.uint32_t(w.key)
	out.bind_addr, out.bind_length = C.uint64_t(w.iova), C.uint64_t(len(wr.SGL[0].Buf))
	out.bind_access = accessFlags(wr.Access &^ rdmatransport.AccessLocalWrite)
}

// addSGL adds the elements that are not empty: some devices interpret a length of 0 as 2 GiB.
func (c *completionQueue) addSGL(sgl []rdmatransport.SGE) (first, n C.uint32_t) {
	first = C.uint32_t(len(c.sges))
	for i := range sgl {
		if s := &sgl[i]; len(s.Buf) > 0 {
			c.sges = append(c.sges, C.struct_nv_sge{
				addr: C.uint64_t(address(s.Buf)), length: C.uint32_t(len(s.Buf)), lkey: C.uint32_t(s.LKey),
			})
			n++
		}
	}
	return first, n
}

// submit posts the chain. Requests that the device refuses, although they are valid, are flushed later.
func (q *queuePair) submit() {
	c := q.cq
	if q.ended { // an earlier part of the chain failed
		return
	}
	if err := failure(c.postSend(q.qp), "posting sends"); err != nil {
		q.send.abandon()
		q.fail(err)
	}
}

// PostRecv implements rdmatransport.QueuePair.
func (q *queuePair) PostRecv(wrs []rdmatransport.RecvWR) error {
	switch {
	case q.closed:
		return rdmatransport.ErrClosed
	case q.shared != nil:
		return rdmatransport.ErrSharedRecv
	case q.recv.users+len(wrs) > q.maxRecv:
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if n := len(wrs[i].SGL); n > q.maxSGE {
			return fmt.Errorf("verbs: receive of %d elements, limit %d", n, q.maxSGE)
		}
	}
	if len(wrs) == 0 {
		return nil
	}
	if q.ended {
		for i := range wrs {
			q.recv.wait(entry{id: wrs[i].ID, op: rdmatransport.OpRecv})
		}
	} else {
		q.postRecv(wrs)
	}
	q.flushWaiting()
	return nil
}

func (q *queuePair) postRecv(wrs []rdmatransport.RecvWR) {
	c := q.cq
	c.recvs, c.sges = c.recvs[:0], c.sges[:0]
	for i := range wrs {
		s := q.recv.push(entry{id: wrs[i].ID, op: rdmatransport.OpRecv})
		first, n := c.addSGL(wrs[i].SGL)
		c.recvs = append(c.recvs, C.struct_nv_recv{wr_id: q.workID(s, true), first_sge: first, sges: n})
	}
	code := c.postRecv(q.qp)
	runtime.KeepAlive(wrs)
	if err := failure(code, "posting receives"); err != nil {
		q.recv.abandon()
		q.fail(err)
	}
}

// sendOps maps opcodes to those of the shim.
var sendOps = [...]C.uint8_t{
	rdmatransport.OpSend: C.NV_SEND, rdmatransport.OpWrite: C.NV_WRITE, rdmatransport.OpRead: C.NV_READ,
	rdmatransport.OpCompareSwap: C.NV_COMPARE_SWAP, rdmatransport.OpFetchAdd: C.NV_FETCH_ADD,
	rdmatransport.OpBindWindow: C.NV_BIND, rdmatransport.OpInvalidate: C.NV_INVALIDATE,
}

func sendFlags(f rdmatransport.SendFlags) (out C.uint8_t) {
	for _, p := range [...]struct {
		flag rdmatransport.SendFlags
		c    C.uint8_t
	}{
		{rdmatransport.FlagSignaled, C.NV_SIGNALED}, {rdmatransport.FlagFence, C.NV_FENCE},
		{rdmatransport.FlagImmediate, C.NV_IMMEDIATE}, {rdmatransport.FlagInvalidate, C.NV_SEND_INVALIDATE},
		{rdmatransport.FlagSolicited, C.NV_SOLICITED}, {rdmatransport.FlagInline, C.NV_INLINE},
	} {
		if f&p.flag != 0 {
			out |= p.c
		}
	}
	return out
}
