//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A connection is one identifier of the RDMA CM. It outlives its queue pair until the peer has been told of the end,
// because the CM repeats that message only while the identifier exists.
type connection struct {
	dev   *device
	token token
	qp    *queuePair    // nil until a request is answered; Accept sets it under dev.mu
	steps chan cmEvent  // active side: events for Connect
	stop  chan struct{} // closed when the queue pair ends

	mu        sync.Mutex           // guards the fields below, and every use of id
	id        *C.struct_rdma_cm_id // nil once destroyed
	joined    bool                 // the peer may consider the connection established
	confirmed bool                 // the peer does; from now on the CM accepts a disconnect
	leaving   bool                 // the queue pair has ended
	left      bool                 // we have notified the peer of the end
	over      bool                 // the peer has ended it too, or cannot any more
	released  bool                 // the queue pair is closed
	stopped   bool
}

// A cmEvent is an event of the RDMA CM, for Connect.
type cmEvent struct {
	kind              C.uint8_t
	status            int // negative errno, or the reason of a rejection
	readsIn, readsOut int
	data              []byte
}

// newConnection creates an identifier for an active connection.
func (d *device) newConnection(q *queuePair) (*connection, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	c := &connection{dev: d, token: d.newToken(), qp: q, steps: make(chan cmEvent, 8), stop: make(chan struct{})}
	if err := failure(C.nv_create_id(d.lib, d.channel, C.uint64_t(c.token), &c.id), "creating an identifier of the RDMA CM"); err != nil {
		return nil, err
	}
	d.conns[c.token] = c
	return c, nil
}

// use calls f with the identifier, unless it was destroyed.
func (c *connection) use(doing string, f func(id *C.struct_rdma_cm_id) C.int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == nil {
		return rdmatransport.ErrDisconnected
	}
	return failure(f(c.id), doing)
}

// join moves the queue pair to the state in which it sends and receives, unless it is closed.
func (c *connection) join(readsIn, readsOut int) error {
	q, d := c.qp, c.dev
	timeout, bound := d.cfg.ackTimeout()
	attr := C.struct_nv_connect_attr{
		access: q.access, reads_in: C.uint8_t(readsIn), reads_out: C.uint8_t(readsOut),
		ack_timeout: C.uint8_t(timeout), rnr_timer: rnrTimer,
	}
	if bound {
		attr.ack_bound = 1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qp == nil {
		return rdmatransport.ErrDisconnected
	}
	return c.use("connecting a queue pair", func(id *C.struct_rdma_cm_id) C.int {
		c.joined = true
		return C.nv_ready_qp(d.lib, q.qp, id, &attr)
	})
}

// joins records that the device has done so by itself.
func (c *connection) joins() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined = true
}

// rnrTimer makes a peer retry after 640 µs if no receive was posted for its SEND (IBTA volume 1, table 45).
const rnrTimer = 12

// disconnect notifies the peer of the end, or that there will be no connection. Repeated calls do nothing.
func (c *connection) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped = true
		close(c.stop)
	}
	c.leaving = true
	c.leave()
}

// confirm records that the exchange is complete on both sides. It sends a disconnect that came earlier, when the CM
// would not have reported it.
func (c *connection) confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = true
	c.leave()
}

// leave sends the disconnect once both confirmed and leaving are set. mu must be held.
func (c *connection) leave() {
	if c.id == nil || c.left || !c.leaving || !c.confirmed {
		return
	}
	c.left = true
	if C.nv_disconnect(c.dev.lib, c.id) < 0 {
		c.over = true // no longer connected
	}
}

// release is called when the queue pair is closed. The identifier is destroyed once both sides have agreed on the
// end.
func (c *connection) release() {
	c.mu.Lock()
	c.released = true
	now := c.over || !c.joined
	c.mu.Unlock()
	if now {
		c.destroy()
	}
}

func (c *connection) isReleased() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// heard records that no further events of the end will come.
func (c *connection) heard() {
	c.mu.Lock()
	c.over = true
	now := c.released
	c.mu.Unlock()
	if now {
		c.destroy()
	}
}

// destroy destroys the identifier. If the exchange is not complete, that rejects the peer.
func (c *connection) destroy() {
	c.dev.mu.Lock()
	delete(c.dev.conns, c.token)
	c.dev.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != nil {
		C.nv_destroy_id(c.dev.lib, c.id)
		c.id = nil
	}
}

// end ends the queue pair on its own shard.
func (c *connection) end(why error) {
	c.dev.mu.Lock()
	q := c.qp
	c.dev.mu.Unlock()
	if q != nil {
		q.cq.do(func() { q.end(why) })
	}
}
