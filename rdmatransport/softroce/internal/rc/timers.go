package rc

import "time"

type timerID uint8

const (
	timerRetry     timerID = iota // requester: nothing came back
	timerRNR                      // requester: the peer asked to wait
	timerReadGap                  // requester: a response is missing behind later ones
	timerGap                      // responder: a request is missing behind later ones
	timerAck                      // responder: an acknowledgement is owed that could wait
	timerAckRepeat                // responder: the last acknowledgement may be lost
	timerPace                     // both: the token bucket has filled; Transmit follows
	timerCount
)

// timers are the deadlines of one queue pair; Never where none is set.
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
		// What was refused goes out again, unless the window keeps it back: it counts what
		// the peer had no room for either.
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
