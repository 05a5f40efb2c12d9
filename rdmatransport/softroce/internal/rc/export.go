package rc

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Exported is the state of an idle connected queue pair with which another queue pair can continue its connection.
// Windows, rates and loss measurements start afresh, as on a new connection. READs and atomics that were answered
// cannot be repeated, since their keys are invalid.
type Exported struct {
	Peer Peer `json:"peer"` // as given to Connect

	// Requester: the next PSN to send; all packets before it are acknowledged.
	NextPSN wire.PSN `json:"next-psn"`
	// Round trips: mean, deviation and minimum; 0: not measured.
	RoundTrip time.Duration `json:"round-trip"`
	Deviation time.Duration `json:"deviation"`
	Shortest  time.Duration `json:"shortest"`

	// Responder: the PSN of the next request, and the number of completed messages (IBTA 9.7.7.1).
	ExpectedPSN wire.PSN `json:"expected-psn"`
	MSN         wire.MSN `json:"msn"`
	// Read is the number of PSNs used by READs and atomics since the last SEND or WRITE.
	Read int `json:"read,omitempty"`
	// Unasked is the number of executed packets that did not ask for an acknowledgement.
	Unasked int `json:"unasked,omitempty"`
	// NotReady means that the last message was answered with an RNR NAK and will be sent again.
	NotReady bool `json:"not-ready,omitempty"`
	// Repeats is the number of repetitions of the last acknowledgement. RepeatIn is the time until the next one; 0:
	// none.
	Repeats  int           `json:"repeats,omitempty"`
	RepeatIn time.Duration `json:"repeat-in,omitempty"`
}

// Idle reports whether the queue pair is connected and nothing is outstanding except posted receives.
func (q *QP) Idle() bool {
	r, p := &q.req, &q.resp
	sent := q.sq.head == q.sq.tail && !q.outstanding() && !r.reread && len(r.asks.list) == 0 && !r.missing()
	received := p.message == 0 && len(p.held.list) == 0 && len(r.held.list) == 0 && p.jobs.count == 0
	owed := p.ackDue || p.nakDue || q.notify.due || q.peer.Own && p.unacked > 0
	return q.state == StateConnected && sent && received && !owed && !q.cfg.Completions.holds(q.cfg.QPN)
}

// Export returns the state of an idle queue pair, which can only be closed afterwards.
func Export(now time.Duration, q *QP) (Exported, error) {
	if !q.Idle() {
		return Exported{}, errors.New("rc: the queue pair is not idle")
	}
	p := &q.resp
	s := Exported{
		Peer: q.peer, NextPSN: q.req.next, RoundTrip: q.rtt.smooth, Deviation: q.rtt.spread, Shortest: q.rtt.least,
		ExpectedPSN: p.expected, MSN: p.msn, Read: int(p.expected.Sub(1 + uint32(p.answered))), Unasked: p.unacked, NotReady: p.waiting, Repeats: p.repeats,
	}
	if q.timer.running(timerAckRepeat) {
		s.RepeatIn = max(1, q.timer.at[timerAckRepeat]-now)
	}
	q.timer.stopAll()
	q.state = StateMoved
	return s, nil
}

// Restore moves a queue pair from StateInit to StateConnected, in the exported state.
func (s *Exported) Restore(now time.Duration, q *QP) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := q.Connect(s.Peer); err != nil {
		return err
	}
	q.req.next, q.req.acked = s.NextPSN, s.NextPSN
	q.rtt.smooth, q.rtt.spread, q.rtt.least = s.RoundTrip, s.Deviation, s.Shortest
	p := &q.resp
	p.expected, p.msn, p.unacked, p.waiting, p.repeats = s.ExpectedPSN, s.MSN, s.Unasked, s.NotReady, s.Repeats
	p.answered = s.ExpectedPSN.Sub(1 + uint32(s.Read))
	if s.RepeatIn > 0 {
		q.timer.set(timerAckRepeat, now+s.RepeatIn)
	}
	return nil
}

// Limits of the values in a state.
const (
	maxPSN       = 1<<24 - 1
	maxReads     = 255 // the CM's field has 8 bits (IBTA 12.7.29)
	maxStateTime = time.Hour
)

// check returns an error if no queue pair can have exported s.
func (s *Exported) check() error {
	p := &s.Peer
	for _, n := range []uint32{uint32(p.QPN), uint32(p.SendPSN), uint32(p.RecvPSN), uint32(s.NextPSN), uint32(s.ExpectedPSN), uint32(s.MSN)} {
		if n > maxPSN {
			return fmt.Errorf("rc: %#x in the state of a queue pair has more than 24 bits", n)
		}
	}
	for _, d := range []time.Duration{s.RoundTrip, s.Deviation, s.Shortest, s.RepeatIn, p.AckTimeout} {
		if d < 0 || d > maxStateTime {
			return fmt.Errorf("rc: a time of %v in the state of a queue pair, want 0 to %v", d, maxStateTime)
		}
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"reads out", p.ReadsOut, maxReads}, {"reads in", p.ReadsIn, maxReads}, {"retries", int(p.RetryCount), 7},
		{"RNR retries", int(p.RNRRetryCount), 7}, {"RNR delay", int(p.RNRDelay), 31}, {"window", p.MaxWindow, 1 << 30},
		{"read", s.Read, maxPSN}, {"unasked", s.Unasked, 1 << 30}, {"repeats", s.Repeats, len(ackRepeats)},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("rc: %s of %d in the state of a queue pair, want 0 to %d", n.name, n.value, n.max)
		}
	}
	return nil
}

// holds reports whether completions of a queue pair have not been polled.
func (c *Completions) holds(qpn rdmatransport.QPN) bool {
	for i := c.head; i != c.tail; i++ {
		if c.ring[i&uint32(len(c.ring)-1)].QPN == qpn {
			return true
		}
	}
	return false
}
