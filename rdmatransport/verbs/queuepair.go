//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	defaultQueue = 128
	defaultSGE   = 2
	maxWindows   = 4096
)

// queuePair implements rdmatransport.QueuePair. Only the owner of its completion queue accesses it, except for what
// mu guards.
type queuePair struct {
	cq     *completionQueue
	domain *domain
	serial uint32
	qpn    rdmatransport.QPN
	access C.uint32_t

	maxSend, maxRecv, maxSGE, maxWindows int
	send, recv                           ring
	shared                               *sharedReceiveQueue // or nil
	endID                                uint64              // ID of the completion that reports the end, with shared
	endReported                          bool
	windows                              map[rdmatransport.RKey]*window // by the upper 24 bits of the key

	conn          *connection // nil before the connection exchange
	local, remote netip.AddrPort
	readDepth     int
	connected     bool
	ended         bool
	closed        bool
	err           error

	mu sync.Mutex       // allows Connect, on another goroutine, to use qp
	qp *C.struct_ibv_qp // nil once destroyed
}

// NewQueuePair implements rdmatransport.Domain.
func (d *domain) NewQueuePair(cfg rdmatransport.QPConfig) (rdmatransport.QueuePair, error) {
	c, ok := cfg.CQ.(*completionQueue)
	if !ok || c.dev != d.dev || c.closed {
		return nil, errors.New("verbs: the completion queue belongs to another device")
	}
	if d.closed.Load() {
		return nil, rdmatransport.ErrClosed
	}
	or := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	q := &queuePair{
		cq: c, domain: d, maxSend: or(cfg.MaxSend, defaultQueue), maxRecv: or(cfg.MaxRecv, defaultQueue),
		maxSGE: or(cfg.MaxSGE, defaultSGE), maxWindows: cfg.Windows, endID: cfg.EndID, windows: map[rdmatransport.RKey]*window{},
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	q.access = c.dev.remoteAccess(cfg.NoRemote)
	if err := q.share(cfg.SharedRecv); err != nil {
		return nil, err
	}
	q.send, q.recv = newRing(q.deviceSends(), &c.out), newRing(q.maxRecv, nil)
	if err := q.create(); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *queuePair) check() error {
	a := &q.cq.dev.attrs
	if q.maxSend > a.MaxQueueDepth || q.maxRecv > a.MaxQueueDepth || q.maxSGE > a.MaxSGE || q.maxWindows > maxWindows {
		return fmt.Errorf("verbs: queue pair of %d sends, %d receives, %d scatter elements, %d windows exceeds the %d, %d, %d, %d of %s",
			q.maxSend, q.maxRecv, q.maxSGE, q.maxWindows, a.MaxQueueDepth, a.MaxQueueDepth, a.MaxSGE, maxWindows, a.Name)
	}
	if q.maxWindows > 0 && !a.Windows {
		return fmt.Errorf("verbs: %s has no memory windows of type 2B", a.Name)
	}
	return nil
}

// deviceSends returns the depth of the device's send queue: one request marks the end, and each bind may need an
// invalidation before it.
func (q *queuePair) deviceSends() int {
	if q.maxWindows > 0 {
		return 2*q.maxSend + 1
	}
	return q.maxSend + 1
}

func (q *queuePair) create() error {
	c, d := q.cq, q.cq.dev
	d.mu.Lock()
	err := d.usable()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.reserve(q.deviceSends(), q.maxRecv); err != nil {
		return err
	}
	init := C.struct_nv_qp_init{
		pd: q.domain.pd, send_cq: c.sent.cq, recv_cq: c.arrived.cq, max_send: C.uint32_t(q.deviceSends()), max_recv: C.uint32_t(q.maxRecv),
		max_sge: C.uint32_t(q.maxSGE), max_inline: d.hw.max_inline, access: q.access, port: d.hw.port,
	}
	if q.shared != nil {
		init.srq = q.shared.srq
	}
	var qpn C.uint32_t
	if err := failure(C.nv_create_qp(d.lib, &init, &q.qp, &qpn), "creating a queue pair"); err != nil {
		c.unreserve(q.deviceSends(), q.maxRecv)
		return err
	}
	q.qpn = rdmatransport.QPN(qpn)
	q.serial = c.newSerial()
	c.qps[q.serial] = q
	if q.shared != nil {
		c.sharers[q.qpn] = q
		q.shared.users++
	}
	return nil
}

func (q *queuePair) QPN() rdmatransport.QPN     { return q.qpn }
func (q *queuePair) LocalAddr() netip.AddrPort  { return q.local }
func (q *queuePair) RemoteAddr() netip.AddrPort { return q.remote }
func (q *queuePair) ReadDepth() int             { return q.readDepth }

// Err implements rdmatransport.QueuePair.
func (q *queuePair) Err() error { return q.err }

// Disconnect implements rdmatransport.QueuePair.
func (q *queuePair) Disconnect() { q.end(rdmatransport.ErrDisconnected) }

// end ends the queue pair and completes the requests that the device does not have.
func (q *queuePair) end(why error) {
	q.fail(why)
	q.flushWaiting()
}

// fail moves the queue pair to the error state, in which the device flushes its requests, and notifies the peer.
func (q *queuePair) fail(why error) {
	if q.ended || q.closed {
		return
	}
	q.ended, q.err = true, why
	if C.nv_fail_qp(q.cq.dev.lib, q.qp) < 0 {
		q.send.abandon()
		q.recv.abandon()
	}
	q.mark()
	if q.conn != nil {
		q.conn.disconnect()
	}
}

// mark posts one last request. Its flush shows that earlier successful unsignaled requests have completed.
func (q *queuePair) mark() {
	if q.send.deviceLength() == 0 {
		return
	}
	s := q.send.push(entry{internal: true})
	wr := C.struct_nv_send{wr_id: q.workID(s, false), op: C.NV_SEND, flags: C.NV_SIGNALED}
	c := q.cq
	c.sends = append(c.sends[:0], wr)
	c.sges = c.sges[:0]
	if c.postSend(q.qp) < 0 {
		q.send.abandon()
	}
}

// flushWaiting completes the requests that the device never got, once the device has completed all others.
func (q *queuePair) flushWaiting() {
	if !q.ended || q.closed {
		return
	}
	for _, r := range [...]*ring{&q.send, &q.recv} {
		if r.deviceLength() > 0 {
			continue
		}
		for r.length() > 0 {
			if e := r.pop(); !e.internal {
				q.cq.backlog = append(q.cq.backlog, queued{q.serial, rdmatransport.Completion{
					ID: e.id, QPN: q.qpn, Op: e.op, Status: rdmatransport.StatusFlushed,
				}})
			}
		}
	}
	if q.shared != nil && !q.endReported && q.send.deviceLength() == 0 {
		q.endReported = true
		q.cq.backlog = append(q.cq.backlog, queued{q.serial, rdmatransport.Completion{
			ID: q.endID, QPN: q.qpn, Op: rdmatransport.OpSend, Status: rdmatransport.StatusFlushed,
		}})
	}
}

// Close implements rdmatransport.QueuePair. Windows are closed first, since a bound window holds a reference to its
// queue pair. The device's completions are taken last, so that they no longer count against the completion queue.
func (q *queuePair) Close() error {
	if q.closed {
		return nil
	}
	q.fail(rdmatransport.ErrDisconnected)
	q.closed = true
	var errs []error
	for _, w := range q.windows {
		errs = append(errs, w.Close())
	}
	c := q.cq
	if q.shared != nil {
		c.load() // the library drops the queue pair's completions when it is destroyed, even those of shared receives
	}
	q.mu.Lock()
	errs = append(errs, c.dev.freed(C.nv_destroy_qp(c.dev.lib, q.qp), "destroying a queue pair"))
	q.qp = nil
	q.mu.Unlock()
	if q.conn != nil {
		q.conn.release()
	}
	delete(c.qps, q.serial)
	c.load()
	c.drop(q)
	q.send.forget()
	if q.shared != nil {
		delete(c.sharers, q.qpn)
		q.shared.users--
	}
	c.unreserve(q.deviceSends(), q.maxRecv)
	return errors.Join(errs...)
}

var _ rdmatransport.QueuePair = (*queuePair)(nil)
