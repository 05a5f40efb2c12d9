package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// receiveREQ handles a new or repeated REQ.
func (e *Engine) receiveREQ(now time.Duration, from netip.Addr, m *wire.MAD, tid uint64) {
	if !e.limiter.admits(now, from) {
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

// contest looks for connections that the peer has forgotten according to its REQ, which has the queue pair or the
// communication ID of one. IBTA 12.9.8.3.1 ends such connections at once and makes the peer try again. But a REQ can
// be sent with a forged source address, and the queue pair numbers of rdma_rxe are easily guessed. So the new
// exchange proceeds in parallel, and ends the old connections when the peer's RTU shows that it has received our REP
// (establish). contest returns the connection with the same ID.
func (e *Engine) contest(from netip.Addr, r *wire.REQ) (older *conn) {
	c := e.remoteIDs[remoteID{from, r.LocalID}]
	switch {
	case c == nil:
	case c.state == reqReceived || c.state == repSent: // the peer has started again
		older = c.older
		e.Counters.HalfOpenEvicted++
		// A REJ is not sent, since it would also refer to the new exchange.
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

// answerDuplicate repeats the answer to a REQ.
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

// begin registers a valid request.
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

// answerLate is called when the caller has not answered in time. It first asks the peer to wait (MRA), and gives up
// when that time has passed.
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

// Accept sends a REP. EventEstablished, EventRejected or EventUnreachable follows, or the caller's call of
// Established.
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
		// The responder must not grant more than was asked for, nor use more than was offered (IBTA 12.7.29,
		// 12.7.30).
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

// Reject rejects a request, or a reply to ours, with at most 148 bytes of private data.
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

// RejectAll rejects the unanswered requests, without private data.
func RejectAll(e *Engine, now time.Duration, reason rdmatransport.RejectReason) {
	for el := e.halfOpen.Front(); el != nil; el = el.Next() {
		if c := el.Value.(*conn); c.state == reqReceived {
			e.endWithReject(now, c, reason, nil)
		}
	}
}

// endWithReject sends a REJ and keeps the connection for as long as the other side may repeat its message.
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

// Established reports that data arrived on the queue pair of an accepted connection, which takes the place of the RTU
// (IBTA 12.9.8.5). It does nothing in other states, nor if it would end another connection: forging data takes the 24
// bits of a queue pair number, forging an RTU 32 more. The REP is repeated until the RTU arrives.
func (e *Engine) Established(now time.Duration, id wire.CommID) {
	c := e.conns[id]
	if c == nil || c.state != repSent || c.older.stands() || e.remoteQPNs[remoteQPN{c.peer, c.peerQPN}] != nil {
		return
	}
	e.establish(now, c)
}

// establish marks the connection as established, and ends those that the peer has forgotten.
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

// confirmed removes the connection from halfOpen.
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
		e.limiter.proves(now, c)
		e.emit(Event{Kind: EventEstablished, ID: c.id})
	case c.state == established && !c.active:
		e.Counters.DuplicateRTU++
		e.limiter.proves(now, c)
	default:
		e.Counters.WrongState++
	}
}

// makeRoom drops the oldest half-open connection of the peer, or of all, if a new one would exceed a limit.
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

// drop ends a half-open connection without a request by the caller.
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
