//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// control handles events of the RDMA CM and the device.
func (c *completionQueue) control() {
	if c.waiter.looked.Load() && c.waiter.looked.Swap(false) {
		c.looked = c.now // an event would have set control
	}
	due := c.now-c.looked >= controlInterval || c.now-c.present >= presenceInterval
	if !due && !(c.waiter.control.Load() && c.waiter.control.Swap(false)) {
		return
	}
	c.looked = c.now
	d := c.dev
	for {
		d.mu.Lock()
		next := d.newToken()
		d.mu.Unlock()
		if C.nv_get_event(d.lib, d.channel, C.uint64_t(next), &c.event) != 1 {
			break
		}
		c.busy = true
		d.event(&c.event, next)
	}
	for C.nv_get_async(d.lib, d.context, &c.async) == 1 {
		d.asynchronous(&c.async)
	}
	if c.now-c.present >= presenceInterval {
		c.present = c.now
		if d.absent() {
			d.lose(ErrRemoved)
		}
	}
}

// event handles an event of the RDMA CM.
func (d *device) event(e *C.struct_nv_event, next token) {
	if e._type == C.NV_EVENT_REQUEST {
		d.request(e, next)
		return
	}
	if token(e.token) == anchorToken {
		switch e._type {
		case C.NV_EVENT_REMOVAL:
			d.lose(ErrRemoved)
		case C.NV_EVENT_ADDR_CHANGE:
			d.lose(ErrMoved)
		}
		return
	}
	d.mu.Lock()
	c := d.conns[token(e.token)]
	d.mu.Unlock()
	if c != nil { // events of listeners are also reported to the anchor
		c.event(e)
	}
}

// event handles an event of one connection.
func (c *connection) event(e *C.struct_nv_event) {
	if c.steps != nil {
		select {
		case c.steps <- cmEvent{
			kind: e._type, status: int(e.status), readsIn: int(e.reads_in), readsOut: int(e.reads_out), data: privateData(e),
		}:
		default: // Connect has returned
		}
	}
	switch e._type {
	case C.NV_EVENT_ESTABLISHED:
		c.confirm()
	case C.NV_EVENT_DISCONNECTED:
		c.end(rdmatransport.ErrDisconnected)
		c.heard()
	case C.NV_EVENT_TIMEWAIT_EXIT:
		c.heard()
	case C.NV_EVENT_CONNECT_ERROR, C.NV_EVENT_UNREACHABLE:
		c.end(rdmatransport.ErrUnreachable)
		c.heard()
	case C.NV_EVENT_REJECTED:
		c.end(rdmatransport.ErrDisconnected)
		c.heard()
	case C.NV_EVENT_REMOVAL:
		c.end(ErrRemoved)
		c.heard()
	case C.NV_EVENT_ADDR_CHANGE:
		c.end(ErrMoved)
	}
}

func privateData(e *C.struct_nv_event) []byte {
	return C.GoBytes(unsafe.Pointer(&e.private_data[0]), C.int(e.private_len))
}

// asynchronous handles an asynchronous event of the device (ibv_get_async_event(3)).
func (d *device) asynchronous(a *C.struct_nv_async) {
	switch {
	case a.fatal != 0 || a.cq_fatal != 0:
		d.lose(ErrBroken)
	case a.established != 0 || a.qp_fatal != 0:
		if c := d.connectionOf(rdmatransport.QPN(a.qp_num)); c == nil {
			return
		} else if a.qp_fatal != 0 {
			c.end(fmt.Errorf("verbs: the device has put queue pair %d into the error state (event %d)", a.qp_num, a._type))
		} else {
			// The peer's RTU was lost; its data takes the RTU's place.
			_ = c.use("confirming a connection", func(id *C.struct_rdma_cm_id) C.int { return C.nv_data_arrived(d.lib, id) })
		}
	}
}

// connectionOf returns the connection of the queue pair with a number. A connection whose queue pair is closed may
// exist until its peer has been told of the end. By then the device may have reused the number, so such connections
// are skipped.
func (d *device) connectionOf(qpn rdmatransport.QPN) *connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		if c.qp != nil && c.qp.qpn == qpn && !c.isReleased() {
			return c
		}
	}
	return nil
}

// request passes a connection request to the listener of its port.
func (d *device) request(e *C.struct_nv_event, next token) {
	c := &connection{dev: d, token: next, id: e.id, stop: make(chan struct{})}
	r := &connRequest{
		conn: c, data: privateData(e), local: fromC(&e.local), remote: fromC(&e.remote),
		readsIn: int(e.reads_in), readsOut: int(e.reads_out),
	}
	d.mu.Lock()
	l := d.listeners[token(e.token)]
	d.conns[next] = c
	d.mu.Unlock()
	if l == nil || !d.owns(e.id) || !l.offer(r) {
		_ = r.Reject(nil)
	}
}

// owns reports whether an identifier is bound to this device: a request to a wildcard address may have arrived
// through another device.
func (d *device) owns(id *C.struct_rdma_cm_id) bool {
	name, port := d.deviceOf(id)
	return name == C.GoString(&d.hw.name[0]) && port == int(d.hw.port)
}

// addresses returns the local and remote address of a connection.
func (c *connection) addresses() (local, remote netip.AddrPort) {
	var l, r C.struct_nv_addr
	_ = c.use("", func(id *C.struct_rdma_cm_id) C.int {
		C.nv_addresses(id, &l, &r)
		return 0
	})
	return fromC(&l), fromC(&r)
}
