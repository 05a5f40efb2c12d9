package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// notifier is the notification point of congestion control (IBTA A17.9; "NP" in
// DCQCN, SIGCOMM 2015, 3.1): marks found on the peer's packets go back to it as
// CNPs.
type notifier struct {
	due  bool
	next time.Duration // no CNP goes out before it
	calm time.Duration // the peer's packets are taken to meet congestion until then
}

// Marked takes note that packet p was marked "congestion experienced" on its way
// here (RFC 3168). It comes beside Receive, before or after. CNPs may be marked
// as well, but are never answered, or two ends could keep notifying each other.
func (q *QP) Marked(now time.Duration, p *wire.Packet) {
	if q.state != StateConnected || !p.Opcode.IsRC() {
		return
	}
	q.notify.calm = now + 4*q.roundTrip()
	if now < q.notify.next {
		return
	}
	q.notify.due = true
	q.notify.next = now + q.cfg.Rate.CNPInterval
}

// sendCNP makes the peer send more slowly.
func (q *QP) sendCNP(o *Outbox) {
	q.notify.due = false
	h := q.header(0)
	out := o.start()
	out.HLen = uint8(len(wire.AppendCNP(out.Header[:0], &h)))
	q.cfg.Counters.CNPsSent++
}
