package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	maxRequestData = rdmatransport.MaxRequestData
	permissiveLID  = 0xffff
)

// Connect sends a REQ. EventReply, EventRejected or EventUnreachable follows.
func (e *Engine) Connect(now time.Duration, p ConnectParams) (wire.CommID, error) {
	to := p.To.Addr().Unmap()
	switch {
	case !to.IsValid() || to.Is4() != e.cfg.Addr.Is4():
		return 0, ErrAddress
	case len(p.PrivateData) > maxRequestData:
		return 0, ErrPrivateData
	case p.PathMTU.Bytes() == 0:
		return 0, ErrPathMTU
	}
	setDefault(&p.AckTimeout, 17)
	setDefault(&p.HopLimit, 64)
	c := e.newConn(reqSent, to, p.TrafficClass)
	c.active, c.tid, c.qpn = true, e.transaction(c.id), p.QPN
	c.req = e.request(c.id, to, &p)
	m := new(wire.MAD)
	c.req.Put(m, c.tid)
	e.transmit(now, c, m, interval(e.cfg.ResponseTimeout), int(e.cfg.MaxRetries))
	return c.id, nil
}

// request returns the REQ as RoCEv2 endpoints send it: without LIDs, and with the addresses both as GIDs and in the
// RDMA CM's header.
func (e *Engine) request(id wire.CommID, to netip.Addr, p *ConnectParams) wire.REQ {
	r := wire.REQ{
		LocalID: id, Service: wire.TCPService(p.To.Port()), GUID: e.cfg.GUID, QPN: p.QPN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		RemoteTimeout: e.cfg.ResponseTimeout, LocalTimeout: e.cfg.ResponseTimeout, MaxRetries: e.cfg.MaxRetries,
		FlowControl: p.FlowControl, StartingPSN: p.StartingPSN,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		PKey: wire.DefaultPKey, PathMTU: p.PathMTU,
		LocalLID: permissiveLID, RemoteLID: permissiveLID,
		LocalGID: wire.GIDFor(e.cfg.Addr), RemoteGID: wire.GIDFor(to),
		FlowLabel: p.FlowLabel, TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, AckTimeout: p.AckTimeout,
	}
	h := wire.NewIPHeader(netip.AddrPortFrom(e.cfg.Addr, p.SourcePort), to)
	h.Put(&r.PrivateData)
	copy(r.PrivateData[wire.IPHeaderSize:], p.PrivateData)
	return r
}

// Confirm sends the RTU that follows a REP. The caller's queue pair must be ready.
func (e *Engine) Confirm(_ time.Duration, id wire.CommID) error {
	c := e.conns[id]
	if c == nil || c.state != repReceived {
		return ErrGone
	}
	c.state = established
	e.sendRTU(c, c.tid)
	return nil
}

func (e *Engine) sendRTU(c *conn, tid uint64) {
	m := new(wire.MAD)
	rtu := wire.RTU{LocalID: c.id, RemoteID: c.remoteID}
	rtu.Put(m, tid)
	e.send(c.peer, c.tclass, m)
}

// receiveREP handles a REP: the peer has accepted.
func (e *Engine) receiveREP(now time.Duration, from netip.Addr, m *wire.MAD, tid uint64) {
	var r wire.REP
	r.Parse(m)
	c := e.find(from, r.RemoteID, r.LocalID)
	switch {
	case c == nil:
	case c.state == reqSent:
		e.accepted(now, c, &r)
	case c.state == repReceived:
		// The peer is waiting; only an MRA tells it that its REP has arrived.
		e.Counters.DuplicateREP++
		e.sendMRA(c, wire.MessageREP, tid)
	case c.state == established && c.active:
		// Our RTU was lost (IBTA 12.9.8.5).
		e.Counters.DuplicateREP++
		e.sendRTU(c, tid)
	default:
		e.Counters.WrongState++
	}
}

// accepted handles the first REP of an exchange.
func (e *Engine) accepted(now time.Duration, c *conn, r *wire.REP) {
	if !validQPN(r.QPN) || r.LocalID == 0 {
		e.Counters.MalformedMessage++
		return
	}
	if e.evictStale(now, c.peer, r.QPN) {
		c.remoteID = r.LocalID
		c.state = repReceived
		e.reject(c, rdmatransport.RejectStale, nil)
		e.emit(Event{Kind: EventRejected, ID: c.id, Reason: rdmatransport.RejectStale})
		e.close(c)
		return
	}
	e.stopTimer(c)
	e.identify(c, r.LocalID, r.QPN)
	e.remoteQPNs[remoteQPN{c.peer, r.QPN}] = c
	c.state = repReceived
	port, _ := c.req.Service.Port()
	e.emit(Event{Kind: EventReply, ID: c.id, PrivateData: append([]byte(nil), r.PrivateData[:]...), Peer: Peer{
		Addr: netip.AddrPortFrom(c.peer, port), Service: c.req.Service, GUID: r.GUID, QPN: r.QPN,
		StartingPSN:        r.StartingPSN,
		InitiatorDepth:     min(c.req.InitiatorDepth, r.ResponderResources),
		ResponderResources: min(c.req.ResponderResources, r.InitiatorDepth),
		RetryCount:         c.req.RetryCount, RNRRetryCount: r.RNRRetryCount,
		PathMTU: c.req.PathMTU, AckTimeout: c.req.AckTimeout, AckDelay: r.AckDelay, FlowControl: r.FlowControl,
		TrafficClass: c.req.TrafficClass, FlowLabel: c.req.FlowLabel,
	}})
}

// validQPN reports whether n can be a peer's queue pair: 0 and 1 are the management queue pairs, all ones is
// multicast.
func validQPN(n rdmatransport.QPN) bool { return n > 1 && n < 1<<24-1 }
