package rc

import (
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// notifier is the notification point of congestion control (IBTA A17.9; NP in DCQCN, SIGCOMM 2015, 3.1): it answers
// marks on the peer's packets with CNPs.
type notifier struct {
	due  bool
	next time.Duration // no CNP is sent before
	calm time.Duration // the peer's packets are assumed to meet congestion until then
}

// Marked records that packet p arrived marked "congestion experienced" (RFC 3168). It is called in addition to
// Receive, before or after. CNPs may be marked too but are never answered; otherwise two ends could notify each other
// forever.
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

// sendCNP emits a CNP, which makes the peer send more slowly.
func (q *QP) sendCNP(o *Outbox) {
	q.notify.due = false
	h := q.header(0)
	out := o.start()
	out.HLen = uint8(len(wire.AppendCNP(out.Header[:0], &h)))
	q.cfg.Counters.CNPsSent++
}
