package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// receiveREQ: a peer wants to connect, or repeats that it does.
func (e *Engine) receiveREQ(now time.Duration, from netip.Addr, m *wire.MAD, tid uint64) {
	if !e.door.admits(now, from) {
		e.Counters.TooMany++
		return
	}
	var r wire.REQ
	r.Parse(m)
	if r.LocalID == 0 || !validQPN(r.QPN) {
		e.Counters.MalformedMessage++
		return
	}
	if c := e.remoteIDs[remoteID{from, r.LocalID}]; c != nil {
		if c.peerQPN == r.QPN && c.req.StartingPSN == r.StartingPSN && !c.active {
			e.Counters.DuplicateREQ++
			e.answerDuplicate(c)
			return
		}
	}
	if reason := e.check(from, &r); reason != 0 {
		e.refuse(from, &r, tid, reason)
		return
	}
	older := e.contest(from, &r)
	e.makeRoom(now, from)
	e.begin(now, from, &r, tid).older = older
}

// contest looks for connections that a REQ says the peer has forgotten: it names the queue
// pair of one, or its communication ID. IBTA 12.9.8.3.1 ends them at once and has the peer try
// again. But anybody can send a REQ from the peer's address, and the queue pair numbers of
// rdma_rxe are easily guessed. So the exchange goes on beside them, and ends them when the
// peer's RTU shows that it got our REP (establish). It returns that with the same ID.
func (e *Engine) contest(from netip.Addr, r *wire.REQ) (older *conn) {
	c := e.remoteIDs[remoteID{from, r.LocalID}]
	switch {
	case c == nil:
	case c.state == reqReceived || c.state == repSent: // the peer began anew
		older = c.older
		e.Counters.HalfOpenEvicted++
		// Without a REJ, which would name the new exchange as well.
		e.emit(Event{Kind: EventUnreachable, ID: c.id, Reason: rdmatransport.RejectNoResources})
		e.close(c)
	case c.state != timeWait && c.state != refused:
		older = c
	}
	if older != nil || e.remoteQPNs[remoteQPN{from, r.QPN}] != nil {
		e.Counters.Contested++
	}
	return older
}

// answerDuplicate repeats what a REQ got before.
func (e *Engine) answerDuplicate(c *conn) {
	switch c.state {
	case repSent, refused:
		e.send(c.peer, c.tclass, c.message)
	case reqReceived:
		if c.extended {
			e.sendMRA(c, wire.MessageREQ, c.tid)
		}
	}
}

// begin enters a request that is in order.
func (e *Engine) begin(now time.Duration, from netip.Addr, r *wire.REQ, tid uint64) *conn {
	c := e.newConn(reqReceived, from, r.TrafficClass)
	c.req, c.tid = *r, tid
	e.identify(c, r.LocalID, r.QPN)
	c.open = e.halfOpen.PushBack(c)
	e.halfOpenPerPeer[OriginOf(from)]++
	e.setTimer(c, now+interval(r.RemoteTimeout)/2)
	var h wire.IPHeader
	h.Parse(&r.PrivateData)
	e.emit(Event{Kind: EventRequest, ID: c.id, PrivateData: append([]byte(nil), r.PrivateData[wire.IPHeaderSize:]...), Peer: Peer{
		Addr: netip.AddrPortFrom(from, h.SourcePort), Service: r.Service, GUID: r.GUID, QPN: r.QPN,
		StartingPSN: r.StartingPSN, InitiatorDepth: r.ResponderResources, ResponderResources: r.InitiatorDepth,
		RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount, PathMTU: r.PathMTU, AckTimeout: r.AckTimeout,
		FlowControl: r.FlowControl, TrafficClass: r.TrafficClass, FlowLabel: r.FlowLabel,
	}})
	return c
}

// answerLate runs when the caller takes long: it asks the peer to wait (MRA)
// first, and gives up when that has run out.
func (e *Engine) answerLate(now time.Duration, c *conn) {
	if !c.extended {
		c.extended = true
		e.sendMRA(c, wire.MessageREQ, c.tid)
		e.setTimer(c, now+e.cfg.ServiceTimeout.Duration())
		return
	}
	e.Counters.Timeouts++
	e.drop(now, c, rdmatransport.RejectTimeout)
}

// Accept sends a REP. EventEstablished, EventRejected or EventUnreachable
// follows, or the caller's Established.
func (e *Engine) Accept(now time.Duration, id wire.CommID, p AcceptParams) error {
	c := e.conns[id]
	switch {
	case c == nil || c.state != reqReceived:
		return ErrGone
	case len(p.PrivateData) > rdmatransport.MaxReplyData:
		return ErrPrivateData
	}
	r := wire.REP{
		LocalID: c.id, RemoteID: c.remoteID, QPN: p.QPN, StartingPSN: p.StartingPSN,
		// The responder must not promise more than was asked for, nor use
		// more than was offered (IBTA 12.7.29, 12.7.30).
		ResponderResources: min(p.ResponderResources, c.req.InitiatorDepth),
		InitiatorDepth:     min(p.InitiatorDepth, c.req.ResponderResources),
		AckDelay:           p.AckDelay, FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount, GUID: e.cfg.GUID,
	}
	copy(r.PrivateData[:], p.PrivateData)
	m := new(wire.MAD)
	r.Put(m, c.tid)
	c.state, c.qpn, c.confirmBy = repSent, p.QPN, now+e.cfg.ConfirmTimeout
	e.transmit(now, c, m, interval(c.req.LocalTimeout), int(c.req.MaxRetries))
	return nil
}

// Reject refuses a request, or a reply to ours, with at most 148 bytes of
// private data.
func (e *Engine) Reject(now time.Duration, id wire.CommID, reason rdmatransport.RejectReason, privateData []byte) error {
	c := e.conns[id]
	switch {
	case c == nil || c.state != reqReceived && c.state != repReceived:
		return ErrGone
	case len(privateData) > rdmatransport.MaxRejectData:
		return ErrPrivateData
	}
	e.endWithReject(now, c, reason, privateData)
	return nil
}

// RejectAll refuses the requests that were not answered, without private data.
func RejectAll(e *Engine, now time.Duration, reason rdmatransport.RejectReason) {
	for el := e.halfOpen.Front(); el != nil; el = el.Next() {
		if c := el.Value.(*conn); c.state == reqReceived {
			e.endWithReject(now, c, reason, nil)
		}
	}
}

// endWithReject sends a REJ and keeps the connection for as long as the other
// side may repeat its message.
func (e *Engine) endWithReject(now time.Duration, c *conn, reason rdmatransport.RejectReason, privateData []byte) {
	c.message = e.reject(c, reason, privateData)
	if c.state == repReceived {
		e.wait(now, c)
		return
	}
	e.forgetQPN(c)
	c.state = refused
	e.setTimer(c, now+min(2*c.req.RemoteTimeout.Duration(), maxRefused))
}

// Established reports that data arrived on the queue pair of an accepted
// connection, which stands for the RTU (IBTA 12.9.8.5). It does nothing in other
// states, nor where another connection would end by it: who sends data has to know the 24
// bits of a queue pair number, for an RTU 32 more. The REP is repeated until the RTU comes.
func (e *Engine) Established(now time.Duration, id wire.CommID) {
	c := e.conns[id]
	if c == nil || c.state != repSent || c.older.stands() || e.remoteQPNs[remoteQPN{c.peer, c.peerQPN}] != nil {
		return
	}
	e.establish(now, c)
}

// establish ends those connections that the peer has forgotten.
func (e *Engine) establish(now time.Duration, c *conn) {
	if c.older.stands() {
		e.Counters.Stale++
		e.forgotten(now, c.older)
	}
	c.older = nil
	e.evictStale(now, c.peer, c.peerQPN)
	e.remoteQPNs[remoteQPN{c.peer, c.peerQPN}] = c
	c.state = established
	c.message = nil
	e.stopTimer(c)
	e.confirmed(c)
}

// confirmed removes the connection from those half open.
func (e *Engine) confirmed(c *conn) {
	if c.open == nil {
		return
	}
	e.halfOpen.Remove(c.open)
	c.open = nil
	origin := OriginOf(c.peer)
	if e.halfOpenPerPeer[origin]--; e.halfOpenPerPeer[origin] == 0 {
		delete(e.halfOpenPerPeer, origin)
	}
}

func (e *Engine) receiveRTU(now time.Duration, from netip.Addr, m *wire.MAD) {
	var r wire.RTU
	r.Parse(m)
	c := e.find(from, r.RemoteID, r.LocalID)
	switch {
	case c == nil:
	case c.remoteID != r.LocalID:
		e.Counters.UnknownID++
	case c.state == repSent:
		e.establish(now, c)
		e.door.proves(now, c)
		e.emit(Event{Kind: EventEstablished, ID: c.id})
	case c.state == established && !c.active:
		e.Counters.DuplicateRTU++
		e.door.proves(now, c)
	default:
		e.Counters.WrongState++
	}
}

// makeRoom drops the oldest half-open connection of the peer, or of all, if the
// new one would exceed a limit.
func (e *Engine) makeRoom(now time.Duration, from netip.Addr) {
	if origin := OriginOf(from); e.halfOpenPerPeer[origin] >= e.cfg.MaxHalfOpenPerPeer {
		for el := e.halfOpen.Front(); el != nil; el = el.Next() {
			if c := el.Value.(*conn); OriginOf(c.peer) == origin {
				e.evict(now, c)
				return
			}
		}
	}
	if e.halfOpen.Len() >= e.cfg.MaxHalfOpen {
		e.evict(now, e.halfOpen.Front().Value.(*conn))
	}
}

func (e *Engine) evict(now time.Duration, c *conn) {
	e.Counters.HalfOpenEvicted++
	if c.state == refused {
		e.close(c)
		return
	}
	e.drop(now, c, rdmatransport.RejectNoResources)
}

// drop ends a half-open connection that the caller did not end.
func (e *Engine) drop(now time.Duration, c *conn, reason rdmatransport.RejectReason) {
	accepted := c.state == repSent
	e.reject(c, reason, nil)
	e.emit(Event{Kind: EventUnreachable, ID: c.id, Reason: reason})
	if accepted {
		e.wait(now, c)
		return
	}
	e.close(c)
}
