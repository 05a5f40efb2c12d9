package rc

import "time"

type timerID uint8

const (
	timerRetry     timerID = iota // requester: nothing came back
	timerRNR                      // requester: the peer asked to wait
	timerReadGap                  // requester: a response is missing behind later ones
	timerGap                      // responder: a request is missing behind later ones
	timerAck                      // responder: a delayed acknowledgement is due
	timerAckRepeat                // responder: the last acknowledgement may have been lost
	timerPace                     // both: the token bucket has refilled; Transmit follows
	timerCount
)

// timers holds the deadlines of one queue pair; Never if not set.
type timers struct {
	at [timerCount]time.Duration
}

func (t *timers) stopAll() {
	for i := range t.at {
		t.at[i] = Never
	}
}

func (t *timers) stop(id timerID)                  { t.at[id] = Never }
func (t *timers) set(id timerID, at time.Duration) { t.at[id] = at }
func (t *timers) running(id timerID) bool          { return t.at[id] != Never }

func (t *timers) earliest() time.Duration {
	e := t.at[0]
	for _, at := range t.at[1:] {
		e = min(e, at)
	}
	return e
}

func (q *QP) expired(now time.Duration, id timerID) {
	switch id {
	case timerRetry:
		q.retryExpired(now)
	case timerRNR:
		q.req.waitRNR = false
		// The message is sent again now, unless the window does not allow it: the window also counts packets for
		// which the peer had no receive.
		if q.outstanding() {
			q.timer.set(timerRetry, now+q.rtt.timeout())
		}
	case timerReadGap:
		q.readGapExpired(now)
	case timerGap:
		q.gapExpired(now)
	case timerAck:
		q.resp.ackDue = q.resp.ackDue || q.resp.unacked > 0
	case timerAckRepeat:
		q.repeatAck(now)
	}
}
