package rc

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// State is the state of a queue pair (IBTA 10.3.1, without the states that cannot be observed).
type State uint8

const (
	StateInit      State = iota // receives can be posted; nothing is sent or received
	StateConnected              // RTS: both directions work
	StateError                  // everything posted is flushed; a last NAK may still be sent
	StateMoved                  // another queue pair continues the connection
)

// Never is the deadline of a queue pair that has none.
const Never = time.Duration(math.MaxInt64)

// A QP is one reliable-connection queue pair. Each part of its state is written only by the file that declares it.
type QP struct {
	cfg   Config
	peer  Peer
	state State
	why   error

	sq    sendQueue
	rq    recvQueue
	req   requester
	resp  responder
	rtt   roundTrip
	timer timers

	notify notifier
	rate   rateControl
}

// New returns a queue pair in StateInit.
func New(cfg Config) *QP {
	q := &QP{cfg: cfg}
	q.cfg.Rate.setDefaults()
	q.sq.init(cfg.MaxSend, cfg.MaxSGE)
	if cfg.Shared != nil {
		q.cfg.MaxRecv = 1 // for the completion of the end; receives have reservations of their own
		q.rq.init(1, cfg.Shared.queue.maxSGE)
	} else {
		q.rq.init(cfg.MaxRecv, cfg.MaxSGE)
	}
	q.req.held = reorder{store: cfg.Store, counters: cfg.Counters}
	q.resp.held = reorder{store: cfg.Store, counters: cfg.Counters, requests: true}
	q.timer.stopAll()
	cfg.Completions.Reserve(cfg.MaxSend + q.cfg.MaxRecv)
	return q
}

// Connect moves the queue pair to StateConnected.
func (q *QP) Connect(p Peer) error {
	if q.state != StateInit {
		return errors.New("rc: queue pair is not in its initial state")
	}
	if p.PathMTU < 256 || p.PathMTU > 4096 || p.PathMTU&(p.PathMTU-1) != 0 {
		return fmt.Errorf("rc: path MTU %d is not 256, 512, 1024, 2048 or 4096", p.PathMTU)
	}
	q.peer = p
	q.req.held.peer, q.resp.held.peer = p.Addr, p.Addr
	q.req.connect(&p, q.cfg.Budget)
	if q.cfg.NoRemote {
		p.ReadsIn = 0 // ignore what the peer was granted: it costs memory
	}
	q.resp.connect(&p)
	q.rtt.connect(&p, q.cfg.Counters)
	q.state = StateConnected
	return nil
}

// QPN returns the queue pair's own number.
func (q *QP) QPN() rdmatransport.QPN { return q.cfg.QPN }

// Peer returns the argument of Connect.
func (q *QP) Peer() *Peer { return &q.peer }

// State returns the current state.
func (q *QP) State() State { return q.state }

// Err returns the reason why the queue pair is in StateError.
func (q *QP) Err() error { return q.why }

// MSN returns the number of messages received, modulo 2^24 (IBTA 9.7.7.1).
func (q *QP) MSN() wire.MSN { return q.resp.msn }

// Close releases all resources. The queue pair must not be used afterwards.
func (q *QP) Close() {
	q.fail(rdmatransport.ErrClosed)
	q.cfg.Completions.Release(q.cfg.MaxSend+q.cfg.MaxRecv, q.cfg.QPN, q.cfg.Shared != nil)
}

// Fail moves the queue pair to the error state and flushes everything posted.
func (q *QP) Fail(why error) { q.fail(why) }

func (q *QP) fail(why error) {
	if q.state == StateError {
		return
	}
	q.state = StateError
	q.why = why
	q.req.stop(q)
	q.resp.stop(q)
	q.timer.stopAll()
	q.flushQueues()
	if q.cfg.Shared != nil {
		q.cfg.Completions.push(rdmatransport.Completion{
			ID: q.cfg.EndID, QPN: q.cfg.QPN, Op: rdmatransport.OpSend, Status: rdmatransport.StatusFlushed,
		})
	}
}

// failSend ends the queue pair because of the oldest send request. Requests before it are complete, it gets the
// status, and later ones are flushed.
func (q *QP) failSend(status rdmatransport.Status) {
	if w := q.sq.oldest(); w != nil {
		q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: w.op, Status: status})
		q.sq.pop()
	}
	q.fail(errors.New(status.String()))
}

// failRecv ends the queue pair because of the receive in progress, if any.
func (q *QP) failRecv(status rdmatransport.Status) {
	if w := q.rq.oldest(); w != nil && status != rdmatransport.StatusFlushed {
		q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: rdmatransport.OpRecv, Status: status})
		q.rq.pop()
	}
	q.fail(fmt.Errorf("peer's request refused: %v", status))
}

func (q *QP) flushQueues() {
	for w := q.sq.oldest(); w != nil; w = q.sq.oldest() {
		q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: w.op, Status: rdmatransport.StatusFlushed})
		q.sq.pop()
	}
	for w := q.rq.oldest(); w != nil; w = q.rq.oldest() {
		q.cfg.Completions.push(rdmatransport.Completion{ID: w.id, QPN: q.cfg.QPN, Op: rdmatransport.OpRecv, Status: rdmatransport.StatusFlushed})
		q.rq.pop()
	}
}

// Receive handles one packet for this queue pair, whose ICRC and source have been checked. It does not retain the
// payload.
func (q *QP) Receive(now time.Duration, p *wire.Packet) {
	flags := p.Opcode.Flags()
	switch {
	case q.state != StateConnected:
		q.cfg.Counters.WrongState++
	case p.PKey&0x7fff != q.peer.PKey&0x7fff:
		q.cfg.Counters.WrongPKey++
	case p.Opcode == wire.CNP:
		q.receiveCNP(now)
	case !p.Opcode.IsRC():
		q.cfg.Counters.NotRC++ // a UD SEND has the flags of a SEND
	case flags&wire.FlagRequest != 0:
		q.receiveRequest(now, p, flags)
	case flags&wire.FlagResponse != 0:
		q.receiveResponse(now, p, flags)
	default:
		// A reserved opcode on a connected queue pair is an invalid request (IBTA 9.7.5.2.8).
		q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
}

// Transmit appends to o the packets that may be sent now. It reports whether more are ready but did not fit. The
// acknowledgement comes last, since it is less urgent than a response.
func (q *QP) Transmit(now time.Duration, o *Outbox) (more bool) {
	o.from = len(o.Pkts)
	if q.notify.due && q.state == StateConnected && !o.Full() {
		q.sendCNP(o)
	}
	more = q.transmitResponses(now, o)
	if q.state == StateConnected {
		more = q.transmitRequests(now, o) || more
	}
	// An acknowledgement must not overtake responses that the rate limit delays.
	if more || q.resp.jobs.count > 0 || !q.ackReady() && !q.ridesAlong(o) {
		return more
	}
	if o.Full() {
		return true
	}
	q.sendAck(now, o)
	return false
}

// Blocked reports whether the queue pair waits for the shard's receive budget.
func (q *QP) Blocked() bool { return q.req.blocked }

// Deadline returns when Timeout must be called, or Never.
func (q *QP) Deadline() time.Duration { return q.timer.earliest() }

// Timeout handles every deadline that has passed. The caller then calls Transmit.
func (q *QP) Timeout(now time.Duration) {
	if q.state != StateConnected {
		return
	}
	for id := range q.timer.at {
		if q.timer.at[id] <= now {
			q.timer.stop(timerID(id))
			q.expired(now, timerID(id))
		}
	}
}
