package rc

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Exported is what of a connected queue pair that is idle has to outlive it, so that another
// one continues its connection. Windows, rates and what was measured of losses begin anew,
// as on a new connection; READs and atomics that were answered cannot be repeated, since
// their keys are dead.
type Exported struct {
	Peer Peer `json:"peer"` // as of Connect

	// The requester: every packet before it is acknowledged.
	NextPSN wire.PSN `json:"next-psn"`
	// Round trips: mean, deviation and the shortest; 0: none was measured.
	RoundTrip time.Duration `json:"round-trip"`
	Deviation time.Duration `json:"deviation"`
	Shortest  time.Duration `json:"shortest"`

	// The responder: the PSN of the next request, and the messages completed (IBTA 9.7.7.1).
	ExpectedPSN wire.PSN `json:"expected-psn"`
	MSN         wire.MSN `json:"msn"`
	// Read is how many PSNs READs and atomics have had since the last SEND or WRITE.
	Read int `json:"read,omitempty"`
	// Unasked is how many packets were executed for which no acknowledgement was asked for.
	Unasked int `json:"unasked,omitempty"`
	// NotReady says that the last message was refused with an RNR NAK and will come again.
	NotReady bool `json:"not-ready,omitempty"`
	// Repeats is how often the last acknowledgement was repeated, RepeatIn when it is
	// again; 0: it is not.
	Repeats  int           `json:"repeats,omitempty"`
	RepeatIn time.Duration `json:"repeat-in,omitempty"`
}

// Idle reports whether nothing is under way on a connected queue pair, posted receives
// aside.
func (q *QP) Idle() bool {
	r, p := &q.req, &q.resp
	sent := q.sq.head == q.sq.tail && !q.outstanding() && !r.reread && len(r.asks.list) == 0 && !r.missing()
	received := p.message == 0 && len(p.held.list) == 0 && len(r.held.list) == 0 && p.jobs.count == 0
	owed := p.ackDue || p.nakDue || q.notify.due || q.peer.Own && p.unacked > 0
	return q.state == StateConnected && sent && received && !owed && !q.cfg.Completions.holds(q.cfg.QPN)
}

// Export returns the state of an idle queue pair, which is of no more use then but for
// Close.
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

// Restore moves a queue pair from StateInit to StateConnected, where another was exported.
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

// Limits of what a state may say.
const (
	maxPSN       = 1<<24 - 1
	maxReads     = 255 // the CM's field has 8 bits (IBTA 12.7.29)
	maxStateTime = time.Hour
)

// check refuses what no queue pair exports.
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

// holds reports whether completions of a queue pair wait to be polled.
func (c *Completions) holds(qpn rdmatransport.QPN) bool {
	for i := c.head; i != c.tail; i++ {
		if c.ring[i&uint32(len(c.ring)-1)].QPN == qpn {
			return true
		}
	}
	return false
}
