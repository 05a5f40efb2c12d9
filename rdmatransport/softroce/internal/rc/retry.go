package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	minTimeoutOwn = 2 * time.Millisecond
	// rxe's work queues wait for a processor, and a READ requested twice needlessly makes a Linux host lose its
	// controller.
	minTimeoutOther = 100 * time.Millisecond
	firstTimeout    = 50 * time.Millisecond
	maxTimeout      = 500 * time.Millisecond
	answeredTimeout = 65 * time.Millisecond // maximum, after an answer that was not measured
	minGiveUp       = 500 * time.Millisecond
	crowdedSlack    = 200 * time.Microsecond // queueing delay from which a round trip counts as long
	minRetries      = 5                      // unanswered retries before the peer is given up
)

// roundTrip measures the path. It computes the retransmission timeout (as RFC 6298 does) and holds the windows.
type roundTrip struct {
	smooth, spread time.Duration
	least          time.Duration
	floor          time.Duration
	backoff        uint8

	sampling bool
	psn      wire.PSN
	at       time.Duration

	crowded  bool // the last round trip was long
	standing standing

	seen  *latency.Histogram // of the shard
	sends congestion         // SEND and WRITE data
	reads congestion         // requested READ responses
}

func (t *roundTrip) connect(p *Peer, c *Counters) {
	t.seen = &c.RoundTrips
	t.floor = minTimeoutOther
	if p.Own {
		t.floor = minTimeoutOwn
	}
	t.sends.connect(p.MaxWindow)
	t.reads.connect(p.MaxWindow)
}

func (t *roundTrip) timeout() time.Duration {
	return min(maxTimeout, t.expected()<<min(t.backoff, 8))
}

// expected returns the timeout without back-off.
func (t *roundTrip) expected() time.Duration {
	if t.smooth == 0 {
		return max(t.floor, firstTimeout)
	}
	return max(t.floor, t.smooth+4*t.spread)
}

// answered reduces the back-off because the peer is alive. Only a measured round trip ends the back-off. But after
// several losses in a row the timeout must not be as long as for a peer that does not answer.
func (t *roundTrip) answered() {
	for t.backoff > 0 && t.timeout() > max(answeredTimeout, 2*t.floor) {
		t.backoff--
	}
}

func (t *roundTrip) startSample(now time.Duration, psn wire.PSN) {
	if !t.sampling {
		t.sampling, t.psn, t.at = true, psn, now
	}
}

// cancelSample discards the sample, since a packet sent twice does not measure a round trip (Karn). Nor do the
// packets after it, except to a softroce peer, which reports at once what it has received.
func (t *roundTrip) cancelSample(psn wire.PSN, own bool) {
	if t.sampling && (psn == t.psn || !own && psn.Before(t.psn)) {
		t.sampling = false
	}
}

// acknowledged completes the sample if the acknowledgement covers it.
func (t *roundTrip) acknowledged(now time.Duration, psn wire.PSN) {
	if t.sampling && t.psn.Before(psn) {
		t.measured(now)
	}
	t.sends.passed(psn)
	t.reads.passed(psn)
}

// arrived completes the sample if it is the packet psn, which the peer holds.
func (t *roundTrip) arrived(now time.Duration, psn wire.PSN) {
	if t.sampling && t.psn == psn {
		t.measured(now)
	}
}

func (t *roundTrip) measured(now time.Duration) {
	t.sampling = false
	d := max(1, now-t.at)
	t.seen.Observe(int64(d))
	t.sample(d)
	if t.standing.sample(now, d, t.long()+standingSlack) {
		t.backOff()
	}
}

// sample records a round trip, which is the only way to end the back-off. If round trips have become longer than the
// timeout, everything is sent twice, so nothing is measured, and answers alone would keep the timeout too short
// forever.
func (t *roundTrip) sample(d time.Duration) {
	t.backoff = 0
	if t.smooth == 0 {
		t.smooth, t.spread, t.least = d, d/2, d
	} else {
		t.spread += (max(t.smooth-d, d-t.smooth) - t.spread) / 4
		t.smooth += (d - t.smooth) / 8
		t.least = min(t.least, d)
	}
	t.crowded = d > t.long()
}

// long returns the round trip from which on there are queues on the path. The minimum may include a queue, so the
// allowance for a long minimum is limited.
func (t *roundTrip) long() time.Duration {
	return t.least + min(3*t.least, time.Millisecond) + crowdedSlack
}

// retryExpired handles the expiry of the retransmission timer.
func (q *QP) retryExpired(now time.Duration) {
	q.cfg.Counters.Timeouts++
	giveUpAfter := max(minGiveUp, q.peer.AckTimeout*time.Duration(q.peer.RetryCount+1))
	// The retries matter too: this machine or the peer may have paused meanwhile.
	if now-q.req.lastHeard > giveUpAfter && q.rtt.backoff >= min(minRetries, q.peer.RetryCount) {
		q.failAt(q.oldestMissing(), rdmatransport.StatusRetryExceeded)
		return
	}
	q.rtt.backoff++
	if q.peer.Own {
		q.probe(now)
		q.timer.set(timerRetry, now+q.rtt.timeout())
		return
	}
	q.rtt.sends.lost(q.req.acked, q.req.next)
	q.congested(now, lossAlpha)
	if w := q.awaiting(); w != nil {
		q.rtt.reads.lost(w.first.Add(w.received), q.req.next)
		if w.first.Add(w.received).Before(q.req.acked) {
			q.startReread()
		}
	}
	if q.req.acked != q.req.next {
		q.rewind()
		q.req.probing, q.req.probed = true, false
	}
	q.timer.set(timerRetry, now+q.rtt.timeout())
}

// probe sends the first missing packet, or asks for the first missing responses. The answer shows what else is lost.
// The first probe may suffice: if only the last packet was lost, nothing could reveal it (RFC 8985, 7, tail loss
// probe).
func (q *QP) probe(now time.Duration) {
	r := &q.req
	again := r.probing
	q.giveUpFirst()
	if w := q.sq.at(r.ackIdx); r.acked != r.next && w.answered() && uint32(r.acked.Diff(w.first))%r.piece != 0 {
		// A READ with some responses has arrived.
		from := r.acked
		q.ackTo(r.acked.Add(q.unit(w, uint32(r.acked.Diff(w.first)))))
		r.board.passed(from, r.acked)
		q.judge()
	}
	q.forgetAsks(len(r.asks.list))
	r.probing, r.probed = true, false
	if !again {
		return
	}
	q.rtt.sends.lost(r.acked, r.next)
	q.rtt.reads.lost(q.oldestMissing(), r.next)
	q.congested(now, lossAlpha)
}

// responsesMissing reports whether responses before acked are missing.
func (q *QP) responsesMissing() bool {
	return q.peer.Own && q.oldestMissing().Before(q.req.acked)
}

// lostPacket records that a packet of ours was lost.
func (q *QP) lostPacket(now time.Duration, psn wire.PSN) {
	if q.req.probing {
		return // a probe does not indicate loss
	}
	q.rtt.sends.meter.count(0, 1)
	if !q.rate.on || q.rate.metering {
		q.rtt.sends.missed(psn, q.req.next)
	}
	if most := q.rtt.sends.meter.excess(); most > 0 {
		q.congested(now, most)
	}
}

// oldestMissing returns the first PSN that the peer has not answered.
func (q *QP) oldestMissing() wire.PSN {
	if w := q.awaiting(); w != nil && w.first.Add(w.received).Before(q.req.acked) {
		return w.first.Add(w.received)
	}
	return q.req.acked
}

// checkReadGap detects missing responses of requests before later acknowledgements: they are lost, or late (IBTA
// 9.7.5.1.1, implied NAK).
func (q *QP) checkReadGap(now time.Duration) {
	w := q.awaiting()
	if w == nil || q.peer.Own { // asks.go handles softroce peers
		q.timer.stop(timerReadGap)
		return
	}
	_, ahead := q.req.held.first()
	if ahead || w.first.Add(w.received).Before(q.req.acked) {
		q.startReadGap(now)
	}
}

func (q *QP) startReadGap(now time.Duration) {
	if q.timer.running(timerReadGap) || q.req.reread || q.req.window.acted {
		return
	}
	q.req.window.opened(now)
	q.timer.set(timerReadGap, now+q.req.window.length)
}

// readGapExpired requests the missing responses again. The retransmission timer handles the loss of that request.
func (q *QP) readGapExpired(now time.Duration) {
	if q.awaiting() == nil {
		return
	}
	w := q.awaiting()
	q.req.window.acted = true
	q.rtt.reads.lost(w.first.Add(w.received), q.req.next)
	q.startReread()
	q.timer.set(timerRetry, now+q.rtt.timeout())
}
