//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Connect implements rdmatransport.Device. It calls rdma_resolve_addr(3), rdma_resolve_route(3), rdma_connect(3) and
// rdma_establish(3). Each ends with an event, which the device's first completion queue reads.
func (d *device) Connect(ctx context.Context, qp rdmatransport.QueuePair, to netip.AddrPort, p rdmatransport.ConnParams) (rdmatransport.ConnReply, error) {
	q, ok := qp.(*queuePair)
	switch {
	case !ok || q.cq.dev != d:
		return rdmatransport.ConnReply{}, errors.New("verbs: the queue pair belongs to another device")
	case to.Addr().Unmap().Is4() != d.addr.Is4():
		return rdmatransport.ConnReply{}, fmt.Errorf("verbs: %v and %v are of different address families", to.Addr(), d.addr)
	case len(p.PrivateData) > rdmatransport.MaxRequestData:
		return rdmatransport.ConnReply{}, fmt.Errorf("verbs: %d bytes of private data, limit %d", len(p.PrivateData), rdmatransport.MaxRequestData)
	}
	c, err := d.newConnection(q)
	if err != nil {
		return rdmatransport.ConnReply{}, err
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	reply, err := c.dial(ctx, to, p)
	if err != nil {
		c.end(err)
		c.destroy()
		return rdmatransport.ConnReply{}, fmt.Errorf("verbs: connecting to %v: %w", to, err)
	}
	return reply, nil
}

func (c *connection) dial(ctx context.Context, to netip.AddrPort, p rdmatransport.ConnParams) (reply rdmatransport.ConnReply, err error) {
	err = c.onShard(ctx, func(q *queuePair) error {
		switch {
		case q.closed || q.ended:
			return rdmatransport.ErrDisconnected
		case q.conn != nil:
			return errors.New("the queue pair has a connection already")
		}
		q.conn = c
		return nil
	})
	if err == nil {
		err = c.resolve(ctx, to, p.TrafficClass)
	}
	if err != nil {
		return reply, err
	}
	a := &c.dev.attrs
	readsIn, readsOut := min(p.ResponderResources, a.MaxReadsIn), min(p.InitiatorDepth, a.MaxReadsOut)
	params := connParams(c.qp, p, readsIn, readsOut)
	if err := c.use("sending a connection request", func(id *C.struct_rdma_cm_id) C.int { return C.nv_connect(c.dev.lib, id, &params) }); err != nil {
		return reply, err
	}
	e, err := c.await(ctx, C.NV_EVENT_RESPONSE)
	if err != nil {
		return reply, err
	}
	readsIn, readsOut = min(readsIn, e.readsIn), min(readsOut, e.readsOut)
	reply = rdmatransport.ConnReply{PrivateData: e.data, InitiatorDepth: readsOut, ResponderResources: readsIn}
	return reply, c.finish(ctx, to, e.kind, readsIn, readsOut)
}

// resolve resolves the peer's address and the route.
func (c *connection) resolve(ctx context.Context, to netip.AddrPort, tos uint8) error {
	lib, ms := c.dev.lib, C.int(c.dev.cfg.resolveTimeout()/time.Millisecond)
	if tos != 0 {
		err := c.use("setting the type of service", func(id *C.struct_rdma_cm_id) C.int { return C.nv_set_tos(lib, id, C.uint8_t(tos)) })
		if err != nil {
			return err
		}
	}
	c.proposeTimeout()
	src, dst := toC(netip.AddrPortFrom(c.dev.addr, 0)), toC(to)
	err := c.use("resolving the address", func(id *C.struct_rdma_cm_id) C.int { return C.nv_resolve_addr(lib, id, &src, &dst, ms) })
	if err == nil {
		_, err = c.await(ctx, C.NV_EVENT_ADDR_RESOLVED)
	}
	if err != nil {
		return err
	}
	ours := false
	err = c.use("resolving the route", func(id *C.struct_rdma_cm_id) C.int {
		if ours = c.dev.owns(id); !ours {
			return 0
		}
		return C.nv_resolve_route(lib, id, ms)
	})
	switch {
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("the route to the peer goes through another RDMA device than that of %v: use an address of that device as the local address", c.dev.addr)
	}
	_, err = c.await(ctx, C.NV_EVENT_ROUTE_RESOLVED)
	return err
}

// proposeTimeout puts our timeout into the request, so that the peer's device does not wait longer than ours. If the
// kernel does not support that, the peer uses the RDMA CM's value. On InfiniBand that value is what the path needs,
// and only an explicit timeout replaces it.
func (c *connection) proposeTimeout() {
	exponent, bound := c.dev.cfg.ackTimeout()
	if bound && c.dev.hw.roce == 0 {
		return
	}
	_ = c.use("setting the timeout of acknowledgements", func(id *C.struct_rdma_cm_id) C.int {
		return C.nv_set_ack_timeout(c.dev.lib, id, C.uint8_t(exponent))
	})
}

// finish makes the queue pair ready on our side, then on the peer's.
func (c *connection) finish(ctx context.Context, to netip.AddrPort, kind C.uint8_t, readsIn, readsOut int) error {
	byItself := kind == C.NV_EVENT_ESTABLISHED // iWARP: the reply leaves the queue pair in RTS, and there is no third message
	if byItself {
		c.joins()
	} else if err := c.join(readsIn, readsOut); err != nil {
		return err
	}
	local, _ := c.addresses()
	err := c.onShard(ctx, func(q *queuePair) error {
		if q.closed || q.ended {
			return rdmatransport.ErrDisconnected
		}
		q.connected, q.local, q.remote, q.readDepth = true, local, to, readsOut
		return nil
	})
	if err == nil && !byItself {
		err = c.use("confirming a connection", func(id *C.struct_rdma_cm_id) C.int { return C.nv_establish(c.dev.lib, id) })
	}
	if err == nil {
		c.confirm()
	}
	return err
}

// onShard runs f on the goroutine that owns the queue pair.
func (c *connection) onShard(ctx context.Context, f func(*queuePair) error) error {
	done := make(chan error, 1)
	c.qp.cq.do(func() { done <- f(c.qp) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await waits for the event that ends a step.
func (c *connection) await(ctx context.Context, want C.uint8_t) (cmEvent, error) {
	for {
		e, err := c.next(ctx)
		if err != nil {
			return e, err
		}
		if e.kind == want || want == C.NV_EVENT_RESPONSE && e.kind == C.NV_EVENT_ESTABLISHED {
			return e, nil
		}
		if err := e.err(); err != nil {
			return e, err
		}
	}
}

// next returns the next event. If it also ended the queue pair, the event has more information than that end.
func (c *connection) next(ctx context.Context) (cmEvent, error) {
	select {
	case e := <-c.steps:
		return e, nil
	case <-c.stop:
	case <-ctx.Done():
		return cmEvent{}, context.Cause(ctx)
	}
	select {
	case e := <-c.steps:
		return e, nil
	default:
		return cmEvent{}, rdmatransport.ErrDisconnected
	}
}

// err returns the reason why an event ends the connection exchange, or nil.
func (e *cmEvent) err() error {
	switch e.kind {
	case C.NV_EVENT_REJECTED:
		return e.rejection()
	case C.NV_EVENT_ADDR_ERROR:
		return fmt.Errorf("%w: its address cannot be resolved (%w)", rdmatransport.ErrUnreachable, unix.Errno(-e.status))
	case C.NV_EVENT_ROUTE_ERROR:
		return fmt.Errorf("%w: there is no RDMA route to it (%w)", rdmatransport.ErrUnreachable, unix.Errno(-e.status))
	case C.NV_EVENT_UNREACHABLE, C.NV_EVENT_CONNECT_ERROR:
		return rdmatransport.ErrUnreachable
	case C.NV_EVENT_DISCONNECTED, C.NV_EVENT_TIMEWAIT_EXIT:
		return rdmatransport.ErrDisconnected
	case C.NV_EVENT_REMOVAL:
		return ErrRemoved
	case C.NV_EVENT_ADDR_CHANGE:
		return ErrMoved
	}
	return nil
}

// rejection returns the error for a rejection. iWARP has no reject reasons but an errno: a rejection with data comes
// from the application (RFC 5044, 7.1).
func (e *cmEvent) rejection() error {
	reason := rdmatransport.RejectReason(e.status)
	if e.status < 0 {
		reason = rdmatransport.RejectInvalidServiceID
		if len(e.data) > 0 {
			reason = rdmatransport.RejectConsumer
		}
	}
	return &rdmatransport.RejectError{Reason: reason, PrivateData: e.data}
}
