package softroce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// connection links a communication ID of the manager to a queue pair, which often belongs to another shard. The
// fields established and confirmed belong to the queue pair's shard, the others to the manager's.
type connection struct {
	manager     *manager
	id          wire.CommID
	qp          *queuePair
	recvPSN     wire.PSN
	established bool               // arriving data need not be reported to the manager
	confirmed   bool               // the manager knows that the peer has confirmed
	done        chan connectResult // active side; nil once answered
}

type connectResult struct {
	reply rdmatransport.ConnReply
	err   error
}

// finish answers a waiting Connect, once.
func (c *connection) finish(reply rdmatransport.ConnReply, err error) {
	if c.done != nil {
		c.done <- connectResult{reply, err} // buffered: Connect may have returned
		c.done = nil
	}
}

// fail puts the queue pair into the error state, on its own shard.
func (c *connection) fail(why error) {
	q := c.qp
	q.shard.do(func() {
		if q.moved {
			return
		}
		q.ended = true // the manager knows already
		q.rc.Fail(why)
		q.shard.activate(q)
	})
}

// end makes the manager disconnect. It is called on the queue pair's shard.
func (c *connection) end() {
	m := c.manager
	m.shard.do(func() {
		c.finish(rdmatransport.ConnReply{}, rdmatransport.ErrDisconnected)
		m.engine.Disconnect(m.shard.now, c.id)
	})
}

// dataArrived takes the place of the peer's RTU. It is called on the queue pair's shard.
func (c *connection) dataArrived() {
	m := c.manager
	m.shard.do(func() {
		m.engine.Established(m.shard.now, c.id)
		c.confirm()
	})
}

// confirm tells the queue pair's shard if the peer has confirmed the connection. It is called on the manager's shard.
func (c *connection) confirm() {
	if _, ok := cm.QueuePair(c.manager.engine, c.id); ok {
		c.qp.shard.do(func() { c.confirmed = true })
	}
}

// errUsed: a second exchange would replace the first connection, whose peer would then not be told of its end.
var errUsed = errors.New("softroce: the queue pair was already used for a connection or an attempt at one: create another")

// Connect implements rdmatransport.Device.
func (d *Device) Connect(ctx context.Context, qp rdmatransport.QueuePair, to netip.AddrPort, p rdmatransport.ConnParams) (rdmatransport.ConnReply, error) {
	q, ok := qp.(*queuePair)
	switch {
	case !ok || q.shard.dev != d:
		return rdmatransport.ConnReply{}, errors.New("softroce: the queue pair belongs to another device")
	case to.Addr().Unmap().Is4() != d.addr.Is4():
		return rdmatransport.ConnReply{}, fmt.Errorf("softroce: %v and %v are of different address families", to.Addr(), d.addr)
	case len(p.PrivateData) > rdmatransport.MaxRequestData:
		return rdmatransport.ConnReply{}, fmt.Errorf("softroce: %d bytes of private data, limit %d", len(p.PrivateData), rdmatransport.MaxRequestData)
	case q.used.Swap(true):
		return rdmatransport.ConnReply{}, errUsed
	}
	m := d.shards[0].manager
	c := &connection{manager: m, qp: q, recvPSN: wire.PSN(d.random() & 0xffffff), established: true, done: make(chan connectResult, 1)}
	done := c.done
	params := cm.ConnectParams{
		To: netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), QPN: q.QPN(), StartingPSN: c.recvPSN,
		ResponderResources: uint8(min(p.ResponderResources, maxReads)), InitiatorDepth: uint8(min(p.InitiatorDepth, maxReads)),
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, PathMTU: wire.MTUFor(d.pathMTU(to.Addr())),
		AckTimeout: wire.TimeoutFor(d.cfg.AckTimeout), TrafficClass: p.TrafficClass, FlowControl: true, PrivateData: p.PrivateData,
	}
	m.shard.do(func() { m.connect(c, params) })
	select {
	case r := <-done:
		return r.reply, r.err
	case <-d.ended:
		return rdmatransport.ConnReply{}, rdmatransport.ErrClosed
	case <-ctx.Done():
		c.end()
		return rdmatransport.ConnReply{}, fmt.Errorf("softroce: connect to %v: %w", to, context.Cause(ctx))
	}
}

func (m *manager) connect(c *connection, p cm.ConnectParams) {
	p.SourcePort = m.port()
	id, err := m.engine.Connect(m.shard.now, p)
	if err != nil {
		c.finish(rdmatransport.ConnReply{}, err)
		return
	}
	c.id = id
	m.conns[id] = c
	q := c.qp
	local, remote := netip.AddrPortFrom(m.shard.dev.addr, p.SourcePort), p.To
	q.shard.do(func() { q.conn, q.local, q.remote = c, local, remote })
}

// replied handles the peer's REP. The queue pair is made ready on its shard, then the manager confirms.
func (c *connection) replied(e *cm.Event) {
	m, q := c.manager, c.qp
	peer, shards := m.shard.dev.rcPeer(&e.Peer, c.recvPSN), shardsOf(e.Peer.GUID)
	remote, tos, data := e.Peer.Addr.Addr(), e.Peer.TrafficClass, e.PrivateData
	q.shard.do(func() {
		err := q.connect(peer, shards, remote, tos)
		m.shard.do(func() {
			if err != nil {
				m.engine.Reject(m.shard.now, c.id, rdmatransport.RejectConsumer, nil)
				c.finish(rdmatransport.ConnReply{}, err)
				return
			}
			m.engine.Confirm(m.shard.now, c.id)
			c.confirm()
			c.finish(rdmatransport.ConnReply{PrivateData: data, InitiatorDepth: peer.ReadsOut, ResponderResources: peer.ReadsIn}, nil)
		})
	})
}
