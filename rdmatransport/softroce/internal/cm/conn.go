package cm

import (
	"container/heap"
	"container/list"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// state is the state of a connection (IBTA 12.9.7, without the states of unsupported messages).
type state uint8

const (
	reqSent     state = iota // active: waits for REP or REJ
	repReceived              // active: waits for the caller's Confirm
	reqReceived              // passive: waits for the caller's Accept or Reject
	repSent                  // passive: waits for RTU or data
	refused                  // passive: REJ sent; answers repeated REQs
	established
	dreqSent // waits for DREP
	timeWait // answers repeated messages; keeps the QPN from reuse
	closed
)

// A conn is one connection. The engine owns it.
type conn struct {
	id, remoteID wire.CommID // remoteID: 0 until known
	state        state
	active       bool // we sent the REQ
	peer         netip.Addr
	tclass       uint8
	qpn, peerQPN rdmatransport.QPN // qpn: 0 before it is known
	proven       bool              // an RTU has arrived; counted in the limiter
	older        *conn             // an established connection with the same remoteID, which ends when this one is established
	tid          uint64            // of the transaction that created the connection
	req          wire.REQ          // the active side's REQ: ours or the peer's

	// The message that is repeated until answered, and its schedule. On the passive side, message is unused before
	// the answer.
	message  *wire.MAD
	interval time.Duration
	attempt  int  // number of times sent
	retries  int  // repetitions allowed
	extended bool // an MRA was sent or received

	confirmBy time.Duration // passive side, from Accept on
	deadline  time.Duration
	heapIndex int           // index in timers; -1: none
	open      *list.Element // element in halfOpen
}

// stands reports whether the connection exists and has not ended.
func (c *conn) stands() bool { return c != nil && c.state != timeWait && c.state != closed }

type remoteID struct {
	addr netip.Addr
	id   wire.CommID
}

type remoteQPN struct {
	addr netip.Addr
	qpn  rdmatransport.QPN
}

// newConn registers a connection with a new ID.
func (e *Engine) newConn(s state, peer netip.Addr, tclass uint8) *conn {
	c := &conn{id: e.newID(), state: s, peer: peer, tclass: tclass, heapIndex: -1}
	e.conns[c.id] = c
	return c
}

// identify records the peer's communication ID and queue pair. The queue pair is added to remoteQPNs only once the
// peer has shown that it receives what we send.
func (e *Engine) identify(c *conn, id wire.CommID, qpn rdmatransport.QPN) {
	c.remoteID, c.peerQPN = id, qpn
	e.remoteIDs[remoteID{c.peer, id}] = c
}

// forgetQPN allows the peer to use its queue pair for another connection.
func (e *Engine) forgetQPN(c *conn) {
	if key := (remoteQPN{c.peer, c.peerQPN}); e.remoteQPNs[key] == c {
		delete(e.remoteQPNs, key)
	}
}

// close removes the connection.
func (e *Engine) close(c *conn) {
	e.confirmed(c)
	e.stopTimer(c)
	e.forgetQPN(c)
	if key := (remoteID{c.peer, c.remoteID}); e.remoteIDs[key] == c {
		delete(e.remoteIDs, key)
	}
	delete(e.conns, c.id)
	c.state, c.older = closed, nil
	e.emit(Event{Kind: EventClosed, ID: c.id})
}

// wait enters time-wait, in which packets still in flight expire (IBTA 12.9.8.4).
func (e *Engine) wait(now time.Duration, c *conn) {
	e.confirmed(c)
	e.forgetQPN(c)
	e.limiter.ended(now, c)
	c.state = timeWait
	e.setTimer(c, now+min(2*c.req.AckTimeout.Duration(), maxTimeWait))
}

// transmit sends m and repeats it until it is answered.
func (e *Engine) transmit(now time.Duration, c *conn, m *wire.MAD, interval time.Duration, retries int) {
	c.message, c.interval, c.retries, c.attempt = m, interval, retries, 0
	c.extended = false
	e.repeat(now, c)
}

// earlyAttempts is the number of repetitions before the negotiated interval has passed.
const earlyAttempts = 2

// repeat sends the message again. It returns false if all attempts are used up.
func (e *Engine) repeat(now time.Duration, c *conn) bool {
	if c.attempt > earlyAttempts+c.retries || c.state == repSent && now >= c.confirmBy {
		return false
	}
	if c.attempt > 0 {
		e.Counters.Retransmits++
	}
	e.send(c.peer, c.tclass, c.message)
	at := now + c.interval>>max(0, earlyAttempts-c.attempt)
	if c.state == repSent {
		at = min(at, c.confirmBy)
	}
	e.setTimer(c, at)
	c.attempt++
	return true
}

// extend handles an MRA: the peer needs the time t to answer (IBTA 12.9.8.6).
func (e *Engine) extend(now time.Duration, c *conn, t wire.Timeout) {
	at := now + min(t.Duration()+c.interval, maxMRAExtend)
	if c.state == repSent && c.extended {
		at = min(at, c.confirmBy)
	}
	c.confirmBy = max(c.confirmBy, at)
	c.extended = true
	e.setTimer(c, at)
}

// interval returns a negotiated timeout, limited to sensible values.
func interval(t wire.Timeout) time.Duration {
	return min(max(t.Duration(), minInterval), maxInterval)
}

// expire handles the expiry of a connection's timer.
func (e *Engine) expire(now time.Duration, c *conn) {
	switch c.state {
	case reqReceived:
		e.answerLate(now, c)
	case reqSent, repSent, dreqSent:
		if !e.repeat(now, c) {
			e.giveUp(now, c)
		}
	case refused, timeWait:
		e.close(c)
	default:
		e.stopTimer(c)
	}
}

// giveUp ends an exchange because the peer does not answer. The REJ is for a peer that is alive after all (IBTA
// 12.9.8.3).
func (e *Engine) giveUp(now time.Duration, c *conn) {
	e.Counters.Timeouts++
	if c.state == dreqSent {
		e.wait(now, c)
		return
	}
	active := c.state == reqSent
	e.reject(c, rdmatransport.RejectTimeout, nil)
	e.emit(Event{Kind: EventUnreachable, ID: c.id, Reason: rdmatransport.RejectTimeout})
	if active {
		e.close(c)
		return
	}
	e.wait(now, c)
}

// timers is a heap of the connections that have a deadline.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].deadline < t[j].deadline }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].heapIndex, t[j].heapIndex = i, j
}

func (t *timers) Push(x any) {
	c := x.(*conn)
	c.heapIndex = len(*t)
	*t = append(*t, c)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.heapIndex = -1
	return c
}

func (e *Engine) setTimer(c *conn, at time.Duration) {
	c.deadline = at
	if c.heapIndex < 0 {
		heap.Push(&e.timers, c)
		return
	}
	heap.Fix(&e.timers, c.heapIndex)
}

func (e *Engine) stopTimer(c *conn) {
	if c.heapIndex >= 0 {
		heap.Remove(&e.timers, c.heapIndex)
	}
}
