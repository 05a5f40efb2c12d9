package softroce

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// ownGUID is the prefix of this provider's channel adapter GUIDs: a locally administered EUI-64 prefix that
// distinguishes softroce from rxe and RNICs, whose GUIDs carry their vendor's number. Two random bytes and the number
// of shards follow.
const ownGUID, ownGUIDMask = 0x02_6e_76_6d_66_000000, 0xff_ff_ff_ff_ff_000000

func newGUID(random uint64, shards int) wire.GUID {
	if shards > 0xff {
		shards = 0 // unknown
	}
	return wire.GUID(ownGUID | random&0xffff<<8 | uint64(shards))
}

func isOwn(g wire.GUID) bool { return uint64(g)&ownGUIDMask == ownGUID }

// shardsOf returns the number of shards of a softroce peer; 0 means unknown.
func shardsOf(g wire.GUID) uint8 {
	if !isOwn(g) {
		return 0
	}
	return uint8(g)
}

// manager runs the connection manager's engine on shard 0. Its methods run on that shard's goroutine.
type manager struct {
	shard     *shard
	engine    *cm.Engine
	listeners map[wire.ServiceID]*listener
	conns     map[wire.CommID]*connection
	orphans   []wire.CommID // connections of the moved device; those not adopted are ended
	published uint64        // messages received when publish last ran
	nextPort  uint16        // for active connections and port 0; such RDMA CM ports are only displayed
}

func newManager(s *shard) *manager {
	d := s.dev
	return managerOf(s, &cm.Exported{
		GUID: newGUID(uint64(d.random()), len(d.shards)), TransactionHigh: d.random(), PSN: wire.PSN(d.random() & 0xffffff),
	})
}

// managerOf returns a manager that continues the exported one x. Connections are restored by the caller.
func managerOf(s *shard, x *cm.Exported) *manager {
	d := s.dev
	m := &manager{shard: s, listeners: map[wire.ServiceID]*listener{}, conns: map[wire.CommID]*connection{}}
	m.engine = cm.New(cm.Config{
		Addr: d.addr, GUID: x.GUID, Rand: func() uint32 { return uint32(s.rng.Uint64()) },
		ConfirmTimeout:  d.cfg.ConfirmTimeout,
		TransactionHigh: x.TransactionHigh, FirstPSN: x.PSN, MaxMTU: wire.MTUFor(d.pathMTU(netip.Addr{})),
	})
	m.nextPort = 0x8000 | uint16(d.random()&0x3fff)
	return m
}

func (m *manager) receive(from netip.AddrPort, p *wire.Packet) {
	m.engine.Receive(m.shard.now, from, p)
}

func (m *manager) deadline() time.Duration { return m.engine.Deadline() }

// turn fires due timers and handles the engine's events.
func (m *manager) turn(now time.Duration) {
	if m.engine.Deadline() <= now {
		m.engine.Timeout(now)
	}
	for e, ok := m.engine.NextEvent(); ok; e, ok = m.engine.NextEvent() {
		m.event(&e)
	}
	m.publish()
}

// send emits pending messages, each in a datagram of its own from the first transmit socket.
func (m *manager) send() {
	for out, ok := m.engine.NextSend(); ok; out, ok = m.engine.NextSend() {
		m.shard.tx.single(out.To, out.TrafficClass, &out.Packet)
	}
}

func (m *manager) event(e *cm.Event) {
	if e.Kind == cm.EventRequest {
		m.request(e)
		return
	}
	c := m.conns[e.ID]
	if c == nil {
		return
	}
	switch e.Kind {
	case cm.EventEstablished:
		c.confirm()
	case cm.EventReply:
		c.replied(e)
	case cm.EventRejected:
		c.finish(rdmatransport.ConnReply{}, &rdmatransport.RejectError{Reason: e.Reason, PrivateData: e.PrivateData})
		c.fail(rdmatransport.ErrDisconnected)
	case cm.EventUnreachable:
		c.finish(rdmatransport.ConnReply{}, rdmatransport.ErrUnreachable)
		c.fail(rdmatransport.ErrUnreachable)
	case cm.EventDisconnected:
		c.finish(rdmatransport.ConnReply{}, rdmatransport.ErrDisconnected)
		c.fail(rdmatransport.ErrDisconnected)
	case cm.EventClosed:
		c.finish(rdmatransport.ConnReply{}, rdmatransport.ErrDisconnected)
		delete(m.conns, e.ID)
	}
}

// request passes a connection request to the listener of its port.
func (m *manager) request(e *cm.Event) {
	l := m.listeners[e.Peer.Service]
	r := &connRequest{manager: m, id: e.ID, peer: e.Peer, data: e.PrivateData}
	if l != nil {
		r.local = l.addr
		if r = l.backlog.put(r); r == nil {
			return
		}
		m.shard.stats.BacklogFull++
	}
	m.engine.Reject(m.shard.now, r.id, rdmatransport.RejectNoResources, nil)
}

// port returns the next port number, which is only displayed.
func (m *manager) port() uint16 {
	m.nextPort = 0x8000 | (m.nextPort+1)&0x7fff
	return m.nextPort
}

// close rejects the requests that are not yet answered, whether or not a consumer has taken them. The reason is the
// one that the peer would get if it asked again now; no reason keeps a Linux host from asking again.
func (m *manager) close() {
	for _, l := range m.listeners {
		l.shut()
	}
	cm.RejectAll(m.engine, m.shard.now, rdmatransport.RejectInvalidServiceID)
}

// rcPeer converts the negotiated parameters. recvPSN is the PSN at which the peer starts.
func (d *Device) rcPeer(p *cm.Peer, recvPSN wire.PSN) rc.Peer {
	return rc.Peer{
		QPN: p.QPN, SendPSN: p.StartingPSN, RecvPSN: recvPSN, PathMTU: p.PathMTU.Bytes(), PKey: wire.DefaultPKey,
		ReadsOut: min(int(p.InitiatorDepth), maxReads), ReadsIn: min(int(p.ResponderResources), maxReads),
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, AckTimeout: d.cfg.AckTimeout,
		RNRDelay: wire.RNRTimer(640 * time.Microsecond), Own: isOwn(p.GUID),
	}
}
