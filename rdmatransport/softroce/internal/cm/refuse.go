package cm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// check returns the reason to reject a new request, or 0.
func (e *Engine) check(from netip.Addr, r *wire.REQ) rdmatransport.RejectReason {
	n := &e.Counters
	peer := from.WithZone("") // GIDs have no zone
	_, listening := e.listening[r.Service]
	var h wire.IPHeader
	h.Parse(&r.PrivateData)
	src, dst, known := h.Addrs()
	switch {
	case r.Transport != wire.TransportRC:
		n.InvalidTransport++
		return rdmatransport.RejectInvalidTransport
	case !listening:
		n.InvalidService++
		return rdmatransport.RejectInvalidServiceID
	case r.RemoteGID.Addr() != e.addr:
		n.InvalidGID++
		return rdmatransport.RejectInvalidGID
	case r.LocalGID.Addr() != peer:
		n.SourceMismatch++
		return rdmatransport.RejectInvalidGID
	case r.PathMTU.Bytes() == 0 || r.PathMTU > e.cfg.MaxMTU:
		n.InvalidMTU++
		return rdmatransport.RejectInvalidMTU
	case !known:
		n.InvalidIPHeader++
		return rdmatransport.RejectConsumer
	case src.Unmap() != peer || dst.Unmap() != e.addr:
		n.SourceMismatch++
		return rdmatransport.RejectConsumer
	}
	return 0
}

// evictStale ends the connection, if any, that still has the peer's queue pair: the peer has forgotten it (IBTA
// 12.9.8.3.1).
func (e *Engine) evictStale(now time.Duration, from netip.Addr, qpn rdmatransport.QPN) bool {
	c := e.remoteQPNs[remoteQPN{from, qpn}]
	if c == nil {
		return false
	}
	e.Counters.Stale++
	e.forgotten(now, c)
	return true
}

// forgotten ends a connection that the peer no longer has.
func (e *Engine) forgotten(now time.Duration, c *conn) {
	if c.state != dreqSent {
		e.emit(Event{Kind: EventDisconnected, ID: c.id, Reason: rdmatransport.RejectStale})
	}
	e.wait(now, c)
}

// refuse rejects a REQ without creating a connection.
func (e *Engine) refuse(to netip.Addr, r *wire.REQ, tid uint64, reason rdmatransport.RejectReason) {
	m := new(wire.MAD)
	rej := wire.REJ{RemoteID: r.LocalID, Message: wire.MessageREQ, Reason: reason}
	rej.Put(m, tid)
	e.send(to, r.TrafficClass, m)
}

// reject sends a REJ that fits the connection's state, and returns it.
func (e *Engine) reject(c *conn, reason rdmatransport.RejectReason, privateData []byte) *wire.MAD {
	rej := wire.REJ{LocalID: c.id, RemoteID: c.remoteID, Message: wire.MessageOther, Reason: reason}
	switch c.state {
	case reqReceived:
		rej.Message = wire.MessageREQ
		if !c.extended {
			rej.LocalID = 0 // the peer never received it
		}
	case repReceived:
		rej.Message = wire.MessageREP
	}
	if reason == rdmatransport.RejectTimeout {
		// Additional information: our GUID, by which a peer whose communication ID is unknown finds the exchange
		// (IBTA table 108).
		rej.InfoLength = 8
		binary.BigEndian.PutUint64(rej.Info[:], uint64(e.cfg.GUID))
	}
	copy(rej.PrivateData[:], privateData)
	m := new(wire.MAD)
	rej.Put(m, c.tid)
	e.send(c.peer, c.tclass, m)
	return m
}

// receiveREJ handles a REJ: the peer rejects, gives up, or withdraws.
func (e *Engine) receiveREJ(now time.Duration, from netip.Addr, m *wire.MAD) {
	var r wire.REJ
	r.Parse(m)
	var c *conn
	switch {
	case r.RemoteID == 0:
		// The peer's exchange ended before it learned our communication ID.
		c = e.remoteIDs[remoteID{from, r.LocalID}]
		if c == nil || c.state != reqReceived && c.state != repSent {
			e.Counters.UnknownID++
			return
		}
	case r.LocalID == 0:
		// Only the answer to a REQ may lack the peer's ID (IBTA 12.6.7).
		if c = e.find(from, r.RemoteID, 0); c != nil && c.state != reqSent {
			e.Counters.UnknownID++
			return
		}
	default:
		c = e.find(from, r.RemoteID, r.LocalID)
	}
	if c == nil {
		return
	}
	ev := Event{Kind: EventRejected, ID: c.id, Reason: r.Reason, PrivateData: append([]byte(nil), r.PrivateData[:]...)}
	switch c.state {
	case reqSent, reqReceived:
		e.emit(ev)
		e.close(c)
	case repReceived, repSent:
		e.emit(ev)
		e.wait(now, c)
	case established:
		ev.Kind = EventDisconnected
		e.emit(ev)
		e.wait(now, c)
	case dreqSent:
		e.wait(now, c)
	default:
		e.Counters.WrongState++
	}
}

// sendMRA reports that a message has arrived whose answer takes longer.
func (e *Engine) sendMRA(c *conn, message wire.CMMessage, tid uint64) {
	m := new(wire.MAD)
	mra := wire.MRA{LocalID: c.id, RemoteID: c.remoteID, Message: message, ServiceTimeout: e.cfg.ServiceTimeout}
	mra.Put(m, tid)
	e.send(c.peer, c.tclass, m)
}

func (e *Engine) receiveMRA(now time.Duration, from netip.Addr, m *wire.MAD) {
	var r wire.MRA
	r.Parse(m)
	var c *conn
	switch r.Message {
	case wire.MessageREQ:
		c = e.find(from, r.RemoteID, 0)
		if c != nil && c.state == reqSent {
			e.extend(now, c, r.ServiceTimeout)
			return
		}
	case wire.MessageREP:
		c = e.find(from, r.RemoteID, r.LocalID)
		if c != nil && c.state == repSent && r.LocalID == c.remoteID {
			e.extend(now, c, r.ServiceTimeout)
			return
		}
	default: // of a message that we never send
		e.Counters.WrongState++
	}
	if c != nil {
		e.Counters.WrongState++
	}
}
