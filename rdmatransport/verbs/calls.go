//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import "unsafe"

// These calls make up the cost of a command. They neither block nor take long. Where assembly exists, they are made
// without involving the scheduler (package ccall).

func (c *completionQueue) pollCQ(cq *C.struct_ibv_cq, wcs []C.struct_nv_wc) int {
	rxe := c.dev.hw.rxe
	if !c.stack.Ready() {
		return int(C.nv_poll_cq(cq, &wcs[0], C.int(len(wcs)), C.int(rxe)))
	}
	return int(int32(c.stack.Call(uintptr(C.nv_poll_cq), uintptr(unsafe.Pointer(cq)), uintptr(unsafe.Pointer(&wcs[0])), uintptr(len(wcs)), uintptr(rxe))))
}

func (c *completionQueue) armCQ(cq *C.struct_ibv_cq) C.int {
	rxe := c.dev.hw.rxe
	if !c.stack.Ready() {
		return C.nv_arm_cq(cq, C.int(rxe))
	}
	return C.int(int32(c.stack.Call(uintptr(C.nv_arm_cq), uintptr(unsafe.Pointer(cq)), uintptr(rxe), 0, 0)))
}

func (c *completionQueue) takeNotice() *C.struct_ibv_cq {
	lib, channel := c.dev.lib, c.channel
	if !c.stack.Ready() {
		return C.nv_take_cq_event(lib, channel)
	}
	switch from := c.stack.Call(uintptr(C.nv_take_cq_event), uintptr(unsafe.Pointer(lib)), uintptr(unsafe.Pointer(channel)), 0, 0); from {
	case uintptr(unsafe.Pointer(c.sent.cq)):
		return c.sent.cq
	case uintptr(unsafe.Pointer(c.arrived.cq)):
		return c.arrived.cq
	}
	return nil
}

// postSend posts the chain in sends and sges.
func (c *completionQueue) postSend(qp *C.struct_ibv_qp) C.int {
	sends, sges := c.sends, c.elements()
	if !c.stack.Ready() {
		return C.nv_post_send(qp, &sends[0], C.int(len(sends)), &sges[0])
	}
	return C.int(int32(c.stack.Call(uintptr(C.nv_post_send), uintptr(unsafe.Pointer(qp)), uintptr(unsafe.Pointer(&sends[0])), uintptr(len(sends)), uintptr(unsafe.Pointer(&sges[0])))))
}

// postRecv posts the receives in recvs and sges.
func (c *completionQueue) postRecv(qp *C.struct_ibv_qp) C.int {
	recvs, sges := c.recvs, c.elements()
	if !c.stack.Ready() {
		return C.nv_post_recv(qp, &recvs[0], C.int(len(recvs)), &sges[0])
	}
	return C.int(int32(c.stack.Call(uintptr(C.nv_post_recv), uintptr(unsafe.Pointer(qp)), uintptr(unsafe.Pointer(&recvs[0])), uintptr(len(recvs)), uintptr(unsafe.Pointer(&sges[0])))))
}

func (c *completionQueue) postSharedRecv(srq *C.struct_ibv_srq) C.int {
	recvs, sges := c.recvs, c.elements()
	if !c.stack.Ready() {
		return C.nv_post_srq_recv(srq, &recvs[0], C.int(len(recvs)), &sges[0])
	}
	return C.int(int32(c.stack.Call(uintptr(C.nv_post_srq_recv), uintptr(unsafe.Pointer(srq)), uintptr(unsafe.Pointer(&recvs[0])), uintptr(len(recvs)), uintptr(unsafe.Pointer(&sges[0])))))
}

// elements returns sges with at least one element, so that there is something to point to.
func (c *completionQueue) elements() []C.struct_nv_sge {
	if len(c.sges) == 0 {
		c.sges = append(c.sges, C.struct_nv_sge{})
	}
	return c.sges
}
