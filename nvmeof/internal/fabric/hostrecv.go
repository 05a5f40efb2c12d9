package fabric

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// hostConsumer has the methods of a HostQueue that its shard calls.
type hostConsumer HostQueue

func (h *hostConsumer) Complete(c *rdmatransport.Completion, low uint32) {
	q := (*HostQueue)(h)
	if q.state >= StateFailing {
		return // the queue pair is about to be closed with everything on it
	}
	if c.Status != rdmatransport.StatusSuccess {
		q.fail(transferError(q.qp, c))
		return
	}
	tag := tag(low)
	if tag.kind() == tagRecv {
		q.received(c, tag.index())
		return
	}
	q.send.room += q.credits.take()
	switch tag.kind() {
	case tagSend:
		s := &q.slots[tag.index()]
		s.sending = false
		q.settle(s, int32(tag.index()))
	case tagInvalidate:
		s := &q.slots[tag.index()]
		s.killing, s.keyed = false, false
		q.windows--
		q.settle(s, int32(tag.index()))
	case tagInvalidMore:
		i := q.spares.giveBack(int32(tag.index()))
		s := &q.slots[i]
		s.more--
		q.windows--
		q.settle(s, i)
	}
	if q.line.First() != nil {
		q.slot.Flush()
	}
}

// received handles a response capsule that arrived in receive i.
func (q *HostQueue) received(c *rdmatransport.Completion, i int) {
	if c.Op != rdmatransport.OpRecv {
		q.fail(fmt.Errorf("%w: RDMA WRITE with immediate data", ErrProtocol))
		return
	}
	if c.Bytes < capsule.CompletionSize {
		q.fail(fmt.Errorf("%w: response of %d bytes", ErrShortCapsule, c.Bytes))
		return
	}
	cqe, _ := capsule.DecodeCompletion(q.sges[i].Buf) // its length was checked above
	q.collectRecv(i)
	q.slot.Flush()

	at := int32(cqe.CID & (1<<q.slotBits - 1))
	if int(at) >= len(q.slots) || q.slots[at].req == nil || q.slots[at].cid != cqe.CID || q.slots[at].answered {
		q.fail(fmt.Errorf("%w: response to command %#04x, which is not outstanding", ErrProtocol, uint16(cqe.CID)))
		return
	}
	s := &q.slots[at]
	if s.req.Whole && s.keyed && cqe.Status.OK() && q.short(s, at) {
		s.req.Err = fmt.Errorf("%w: %s", ErrShortData, commandName(&s.req.Command))
	}
	if c.Flags&rdmatransport.HasInvalidated != 0 {
		if !s.keyed || c.InvalidatedKey != s.key {
			q.fail(fmt.Errorf("%w: response invalidates key %#x, which is not its command's", ErrProtocol, uint32(c.InvalidatedKey)))
			return
		}
		s.keyed = false
		q.windows--
	}
	s.answered = true
	s.req.Completion = cqe
	if s.keyed {
		q.kill(s, at)
	}
	if s.more > 0 {
		q.killMore(at)
	}
	q.settle(s, at)
}

// ErrShortData says that the controller completed a command with success without having sent all of its data.
var ErrShortData = errors.New("the controller reports success but has not sent all of the data")

// short reports whether less data arrived for a command than it requested, as far as the provider can tell.
func (q *HostQueue) short(s *hostSlot, i int32) bool {
	w, counts := s.window.(rdmatransport.CountingWindow)
	if !counts {
		return false
	}
	written := w.Written()
	if s.more > 0 {
		for _, at := range q.spares.of[i] {
			written += q.spares.all[at].window.(rdmatransport.CountingWindow).Written() // of the same provider
		}
	}
	return written < uint64(s.req.total())
}

// settle returns the request once neither provider nor controller can access its memory.
func (q *HostQueue) settle(s *hostSlot, i int32) {
	if !s.answered || s.sending || s.keyed || s.more > 0 {
		return
	}
	r := s.req
	q.vacate(s, i)
	r.Done(r)
}

// vacate frees a slot.
func (q *HostQueue) vacate(s *hostSlot, i int32) {
	if s.budget != nil {
		s.source.giveBack(s)
	}
	s.req = nil
	q.free = append(q.free, i)
	if q.line.First() != nil {
		q.slot.Flush()
	}
}

func (q *HostQueue) collectRecv(i int) {
	q.recvs = append(q.recvs, rdmatransport.RecvWR{
		ID: q.slot.ID(makeTag(tagRecv, int32(i))), SGL: q.sges[i : i+1 : i+1],
	})
}

func (q *HostQueue) postRecvs() error {
	if len(q.recvs) == 0 {
		return nil
	}
	err := q.qp.PostRecv(q.recvs)
	q.recvs = q.recvs[:0]
	return err
}

// timeoutChecks is how often timeouts are checked per timeout period.
const timeoutChecks = 4

// checkTimeouts ends the queue if a command is overdue.
func (q *HostQueue) checkTimeouts() {
	if q.state != StateLive {
		return
	}
	limit := q.cfg.Shard.Now() - int64(q.cfg.Timeout)
	for i := range q.slots {
		s := &q.slots[i]
		if s.req != nil && !s.req.Patient && s.sentAt <= limit {
			q.fail(fmt.Errorf("%w: no answer to %s within %v", ErrTimeout, commandName(&s.req.Command), q.cfg.Timeout))
			return
		}
	}
	q.cfg.Shard.SetTimer(&q.watch, max(q.cfg.Timeout/timeoutChecks, time.Millisecond))
}

func commandName(c *capsule.Command) string {
	if c.Opcode == capsule.OpcodeFabrics {
		return c.FabricsType().String()
	}
	return fmt.Sprintf("command with opcode %#02x", uint8(c.Opcode))
}
