package softroce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// listener implements rdmatransport.Listener.
type listener struct {
	manager *manager
	addr    netip.AddrPort
	service wire.ServiceID
	backlog backlog
	closed  chan struct{}
	once    sync.Once
}

// Listen implements rdmatransport.Device.
func (d *Device) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	if a := at.Addr().Unmap(); a != d.addr && !a.IsUnspecified() {
		return nil, fmt.Errorf("softroce: cannot listen on %v: this device is %v", a, d.addr)
	}
	m := d.shards[0].manager
	l := &listener{manager: m, backlog: backlog{ready: make(chan struct{}, 1)}, closed: make(chan struct{})}
	errc := make(chan error, 1)
	m.shard.do(func() { errc <- m.listen(l, at.Port()) })
	select {
	case err := <-errc:
		if err != nil {
			return nil, err
		}
		return l, nil
	case <-d.ended:
		return nil, rdmatransport.ErrClosed
	}
}

func (m *manager) listen(l *listener, port uint16) error {
	if port == 0 {
		port = m.port()
		for m.listeners[wire.TCPService(port)] != nil {
			port = m.port()
		}
	}
	l.service = wire.TCPService(port)
	l.addr = netip.AddrPortFrom(m.shard.dev.addr, port)
	if m.listeners[l.service] != nil {
		return fmt.Errorf("softroce: already listening on %v", l.addr)
	}
	m.listeners[l.service] = l
	m.engine.Listen(l.service)
	return nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

func (l *listener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	for {
		select {
		case <-l.closed: // requests in the backlog are rejected
			return nil, rdmatransport.ErrClosed
		default:
		}
		if r := l.backlog.take(); r != nil {
			return r, nil
		}
		select {
		case <-l.backlog.ready:
		case <-l.closed:
			return nil, rdmatransport.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Close implements rdmatransport.Listener. The rest is done by the manager's shard when it is polled.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	m := l.manager
	m.shard.do(func() {
		if m.listeners[l.service] == l {
			delete(m.listeners, l.service)
			m.engine.Unlisten(l.service)
		}
		l.shut()
	})
	return nil
}

// shut rejects the requests in the backlog. It runs on the manager's shard.
func (l *listener) shut() {
	l.once.Do(func() { close(l.closed) })
	for r := l.backlog.take(); r != nil; r = l.backlog.take() {
		r.answered.Store(true)
		l.manager.engine.Reject(l.manager.shard.now, r.id, rdmatransport.RejectInvalidServiceID, nil)
	}
}

// abandon drops the requests in the backlog without an answer.
func (l *listener) abandon() {
	l.once.Do(func() { close(l.closed) })
	for r := l.backlog.take(); r != nil; r = l.backlog.take() {
		r.answered.Store(true)
	}
}

// connRequest is a peer's connection request, which is answered once.
type connRequest struct {
	manager  *manager
	id       wire.CommID
	peer     cm.Peer
	data     []byte
	local    netip.AddrPort
	answered atomic.Bool
}

func (r *connRequest) PrivateData() []byte        { return r.data }
func (r *connRequest) LocalAddr() netip.AddrPort  { return r.local }
func (r *connRequest) RemoteAddr() netip.AddrPort { return r.peer.Addr }
func (r *connRequest) InitiatorDepth() int        { return int(r.peer.InitiatorDepth) }
func (r *connRequest) ResponderResources() int    { return int(r.peer.ResponderResources) }

var errAnswered = errors.New("softroce: the connection request has been answered")

// Accept implements rdmatransport.ConnRequest. It runs on the queue pair's shard.
func (r *connRequest) Accept(qp rdmatransport.QueuePair, p rdmatransport.ConnParams) error {
	m := r.manager
	q, ok := qp.(*queuePair)
	switch {
	case !ok || q.shard.dev != m.shard.dev:
		return errors.New("softroce: the queue pair belongs to another device")
	case len(p.PrivateData) > rdmatransport.MaxReplyData:
		return fmt.Errorf("softroce: %d bytes of private data, limit %d", len(p.PrivateData), rdmatransport.MaxReplyData)
	case r.answered.Swap(true):
		return errAnswered
	case q.used.Swap(true):
		r.answered.Store(false)
		return errUsed
	}
	peer := r.peer
	peer.InitiatorDepth = uint8(min(int(peer.InitiatorDepth), p.InitiatorDepth, maxReads))
	peer.ResponderResources = uint8(min(int(peer.ResponderResources), p.ResponderResources, maxReads))
	c := &connection{manager: m, id: r.id, qp: q, recvPSN: wire.PSN(m.shard.dev.random() & 0xffffff)}
	if err := q.connect(m.shard.dev.rcPeer(&peer, c.recvPSN), shardsOf(peer.GUID), peer.Addr.Addr(), peer.TrafficClass); err != nil {
		r.answered.Store(false) // the peer has no answer yet: Reject can still be called
		q.used.Store(false)
		return err
	}
	q.conn, q.local, q.remote = c, r.local, peer.Addr
	params := cm.AcceptParams{
		QPN: q.QPN(), StartingPSN: c.recvPSN, ResponderResources: peer.ResponderResources, InitiatorDepth: peer.InitiatorDepth,
		RNRRetryCount: p.RNRRetryCount, AckDelay: ackPromise, FlowControl: true, PrivateData: append([]byte(nil), p.PrivateData...),
	}
	m.shard.do(func() { m.accept(c, params) })
	return nil
}

// ackPromise is the Target ACK Delay of our REPs: 4.3 s. A Linux host derives its retransmission timer from it
// (ib_cm's cm_ack_timeout). rdma_rxe does not stop that timer when an ACK arrives, so it fires once per period under
// any load. If two SENDs are unacknowledged at that moment, the host sends both again and registers the second's
// memory again ("not free"), which makes it give up its controller. We acknowledge within microseconds and repeat the
// ACK (rc, ackRepeats), so the timer is needed only if a SEND is lost and nothing follows it.
const ackPromise wire.Timeout = 20

// accept sends the REP, unless the request has ended meanwhile.
func (m *manager) accept(c *connection, p cm.AcceptParams) {
	m.conns[c.id] = c
	if err := m.engine.Accept(m.shard.now, c.id, p); err != nil {
		delete(m.conns, c.id)
		c.fail(rdmatransport.ErrDisconnected)
	}
}

// Reject implements rdmatransport.ConnRequest.
func (r *connRequest) Reject(data []byte) error {
	if len(data) > rdmatransport.MaxRejectData {
		return fmt.Errorf("softroce: %d bytes of private data, limit %d", len(data), rdmatransport.MaxRejectData)
	}
	if r.answered.Swap(true) {
		return errAnswered
	}
	data = append([]byte(nil), data...)
	m := r.manager
	m.shard.do(func() { m.engine.Reject(m.shard.now, r.id, rdmatransport.RejectConsumer, data) })
	return nil
}
