package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Disconnect ends a connection or an unfinished exchange, and tells the peer. EventClosed follows later. It does
// nothing if the connection has ended.
func (e *Engine) Disconnect(now time.Duration, id wire.CommID) {
	c := e.conns[id]
	if c == nil {
		return
	}
	switch c.state {
	case reqSent:
		e.reject(c, rdmatransport.RejectTimeout, nil)
		e.close(c)
	case reqReceived, repReceived:
		e.endWithReject(now, c, rdmatransport.RejectConsumer, nil)
	case repSent, established:
		retries := int(e.cfg.MaxRetries)
		if c.state == repSent {
			retries = 0 // an unconfirmed peer may not exist
		}
		e.confirmed(c)
		c.disconnect(now, e, retries)
	}
}

// disconnect sends a DREQ.
func (c *conn) disconnect(now time.Duration, e *Engine, retries int) {
	m := new(wire.MAD)
	dreq := wire.DREQ{LocalID: c.id, RemoteID: c.remoteID, RemoteQPN: c.peerQPN}
	dreq.Put(m, e.transaction(c.id))
	c.state = dreqSent
	e.transmit(now, c, m, interval(e.cfg.ResponseTimeout), retries)
}

// receiveDREQ answers every DREQ, even of an unknown connection: a peer whose DREP was lost must be able to end (IBTA
// 12.9.8.5.1). The rate of answers for unknown connections is limited.
func (e *Engine) receiveDREQ(now time.Duration, from netip.Addr, m *wire.MAD, tid uint64) {
	var r wire.DREQ
	r.Parse(m)
	c := e.lookup(r.RemoteID)
	var tclass uint8
	known := c != nil && c.peer == from && c.remoteID == r.LocalID
	switch {
	case !known && !e.limiter.answers(now):
		e.Counters.TooMany++
		return
	case c != nil && c.peer != from: // answered like an unknown ID
		e.Counters.SourceMismatch++
	case !known:
		e.Counters.UnknownDREQ++
	case c.qpn != r.RemoteQPN:
		e.Counters.MalformedMessage++
		return
	default:
		tclass = c.tclass
		e.disconnected(now, c)
	}
	out := new(wire.MAD)
	drep := wire.DREP{LocalID: r.RemoteID, RemoteID: r.LocalID}
	drep.Put(out, tid)
	e.send(from, tclass, out)
}

func (e *Engine) disconnected(now time.Duration, c *conn) {
	switch c.state {
	case repReceived, repSent, established:
		e.emit(Event{Kind: EventDisconnected, ID: c.id})
		e.wait(now, c)
	case dreqSent:
		e.wait(now, c)
	}
}

func (e *Engine) receiveDREP(now time.Duration, from netip.Addr, m *wire.MAD) {
	var r wire.DREP
	r.Parse(m)
	c := e.find(from, r.RemoteID, r.LocalID)
	switch {
	case c == nil:
	case c.state == dreqSent:
		e.wait(now, c)
	default:
		e.Counters.WrongState++
	}
}
