//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// backlog is the maximum number of requests that wait for a listener's Accept; further ones are rejected.
const backlog = 256

// listener implements rdmatransport.Listener.
type listener struct {
	dev      *device
	token    token
	addr     netip.AddrPort
	requests chan *connRequest
	closed   chan struct{}
	once     sync.Once
	why      error // set before closed is closed

	mu sync.Mutex           // guards id; offer fails once id is nil
	id *C.struct_rdma_cm_id // nil once destroyed
}

// Listen implements rdmatransport.Device.
func (d *device) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	l := &listener{dev: d, token: d.newToken(), requests: make(chan *connRequest, backlog), closed: make(chan struct{})}
	if err := l.open(at); err != nil {
		return nil, err
	}
	d.listeners[l.token] = l
	return l, nil
}

func (l *listener) open(at netip.AddrPort) error {
	d := l.dev
	if err := failure(C.nv_create_id(d.lib, d.channel, C.uint64_t(l.token), &l.id), "creating an identifier of the RDMA CM"); err != nil {
		return err
	}
	addr, port := toC(at), C.uint16_t(0)
	code := C.nv_bind(d.lib, l.id, &addr)
	if code == 0 && !at.Addr().IsUnspecified() && !d.owns(l.id) {
		C.nv_destroy_id(d.lib, l.id)
		return fmt.Errorf("verbs: cannot listen on %v: it is not an address of %s", at.Addr(), d.attrs.Name)
	}
	if code == 0 {
		code = C.nv_listen(d.lib, l.id, backlog, &port)
	}
	if code < 0 {
		C.nv_destroy_id(d.lib, l.id)
		if errno := unix.Errno(-code); errors.Is(errno, unix.EADDRINUSE) {
			return fmt.Errorf("verbs: another program already listens on %v: stop it (rdma resource show cm_id shows it), or choose another port: %w", at, errno)
		}
		return failure(code, fmt.Sprintf("listening on %v", at))
	}
	own := d.addr
	if !at.Addr().IsUnspecified() {
		own = at.Addr().Unmap()
	}
	l.addr = netip.AddrPortFrom(own, uint16(port))
	return nil
}

// Addr implements rdmatransport.Listener.
func (l *listener) Addr() netip.AddrPort { return l.addr }

// Accept implements rdmatransport.Listener.
func (l *listener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return nil, l.why
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// offer queues a request. It returns false if the listener is closed or its backlog is full.
func (l *listener) offer(r *connRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == nil {
		return false
	}
	select {
	case l.requests <- r:
		return true
	default:
		return false
	}
}

// Close implements rdmatransport.Listener.
func (l *listener) Close() error {
	l.dev.mu.Lock()
	delete(l.dev.listeners, l.token)
	l.dev.mu.Unlock()
	l.shut(rdmatransport.ErrClosed)
	return nil
}

// shut closes the listener, which the device no longer has, and rejects the waiting requests.
func (l *listener) shut(why error) {
	l.once.Do(func() {
		l.mu.Lock()
		C.nv_destroy_id(l.dev.lib, l.id)
		l.id = nil
		l.mu.Unlock()
		l.why = why
		close(l.closed)
		for {
			select {
			case r := <-l.requests:
				_ = r.Reject(nil)
			default:
				return
			}
		}
	})
}

// connRequest implements rdmatransport.ConnRequest.
type connRequest struct {
	conn              *connection
	data              []byte
	local, remote     netip.AddrPort
	readsIn, readsOut int
	answered          atomic.Bool
}

func (r *connRequest) PrivateData() []byte        { return r.data }
func (r *connRequest) LocalAddr() netip.AddrPort  { return r.local }
func (r *connRequest) RemoteAddr() netip.AddrPort { return r.remote }
func (r *connRequest) InitiatorDepth() int        { return r.readsOut }
func (r *connRequest) ResponderResources() int    { return r.readsIn }

var errAnswered = errors.New("verbs: the connection request has been answered")

// Accept implements rdmatransport.ConnRequest (rdma_accept(3)). It runs on the queue pair's shard.
func (r *connRequest) Accept(qp rdmatransport.QueuePair, p rdmatransport.ConnParams) error {
	c := r.conn
	q, ok := qp.(*queuePair)
	switch {
	case !ok || q.cq.dev != c.dev:
		return errors.New("verbs: the queue pair belongs to another device")
	case len(p.PrivateData) > rdmatransport.MaxReplyData:
		return fmt.Errorf("verbs: %d bytes of private data, limit %d", len(p.PrivateData), rdmatransport.MaxReplyData)
	case q.closed || q.ended:
		return rdmatransport.ErrDisconnected
	case q.conn != nil:
		return errors.New("verbs: the queue pair has a connection already")
	case r.answered.Swap(true):
		return errAnswered
	}
	a := &c.dev.attrs
	readsOut := min(r.readsOut, p.InitiatorDepth, a.MaxReadsOut)
	readsIn := min(r.readsIn, p.ResponderResources, a.MaxReadsIn)
	c.dev.mu.Lock()
	c.qp = q
	c.dev.mu.Unlock()
	q.conn = c
	if err := c.join(readsIn, readsOut); err != nil {
		c.destroy()
		return err
	}
	q.connected, q.local, q.remote, q.readDepth = true, r.local, r.remote, readsOut
	params := connParams(q, p, readsIn, readsOut)
	err := c.use("accepting a connection", func(id *C.struct_rdma_cm_id) C.int { return C.nv_accept(c.dev.lib, id, &params) })
	if err != nil {
		c.destroy()
	}
	return err
}

func connParams(q *queuePair, p rdmatransport.ConnParams, readsIn, readsOut int) (out C.struct_nv_conn) {
	out.qp_num = C.uint32_t(q.qpn)
	out.reads_in, out.reads_out = C.uint8_t(readsIn), C.uint8_t(readsOut)
	out.retry, out.rnr_retry = C.uint8_t(p.RetryCount), C.uint8_t(p.RNRRetryCount)
	out.private_len = C.uint8_t(len(p.PrivateData))
	for i, b := range p.PrivateData {
		out.private_data[i] = C.uint8_t(b)
	}
	return out
}

// Reject implements rdmatransport.ConnRequest (rdma_reject(3)).
func (r *connRequest) Reject(data []byte) error {
	if len(data) > rdmatransport.MaxRejectData {
		return fmt.Errorf("verbs: %d bytes of private data, limit %d", len(data), rdmatransport.MaxRejectData)
	}
	if r.answered.Swap(true) {
		return errAnswered
	}
	var buf [rdmatransport.MaxRejectData]C.uint8_t
	for i, b := range data {
		buf[i] = C.uint8_t(b)
	}
	err := r.conn.use("rejecting a connection", func(id *C.struct_rdma_cm_id) C.int {
		return C.nv_reject(r.conn.dev.lib, id, &buf[0], C.uint8_t(len(data)))
	})
	r.conn.destroy()
	return err
}
