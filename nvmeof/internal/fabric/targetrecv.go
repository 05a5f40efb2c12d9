package fabric

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// targetConsumer has the methods of a TargetQueue that its shard calls.
type targetConsumer TargetQueue

func (t *targetConsumer) Complete(c *rdmatransport.Completion, low uint32) {
	q := (*TargetQueue)(t)
	if q.state != StateLive {
		return // the queue pair is about to be closed with everything on it
	}
	if c.Status != rdmatransport.StatusSuccess {
		q.failTransfer(c)
		return
	}
	switch tag := tag(low); tag.kind() {
	case tagRecv:
		q.received(c, tag.index())
	case tagRead:
		q.readDone(&q.commands[tag.index()], int(c.Bytes))
	case tagSend:
		q.sent(&q.commands[tag.index()])
	case tagProbe:
		q.probed()
	}
}

// failTransfer ends the queue because a work request failed. It uses the queue pair's own error if there is one, since
// the failed work request may only have been flushed.
func (q *TargetQueue) failTransfer(c *rdmatransport.Completion) {
	q.fail(transferError(q.qp, c))
}

func transferError(qp rdmatransport.QueuePair, c *rdmatransport.Completion) error {
	if c.Status == rdmatransport.StatusFlushed {
		if err := qp.Err(); err != nil {
			return err
		}
	}
	return &TransferError{c.Op, c.Status}
}

// received handles a capsule that arrived in receive i.
func (q *TargetQueue) received(c *rdmatransport.Completion, i int) {
	if q.cfg.Shared != nil {
		q.held++
	}
	var err error
	switch {
	case c.Op != rdmatransport.OpRecv:
		err = fmt.Errorf("%w: RDMA WRITE with immediate data", ErrProtocol)
	case c.Bytes < capsule.CommandSize:
		err = fmt.Errorf("%w: command of %d bytes", ErrShortCapsule, c.Bytes)
	case q.held > q.cfg.Depth:
		err = fmt.Errorf("%w: more than the %d commands that the queue has entries for", ErrProtocol, q.cfg.Depth)
	}
	if err != nil {
		q.returnRecv(i)
		q.fail(err)
		return
	}
	arrived := arrival{int32(i), int32(c.Bytes) - capsule.CommandSize}
	q.backlog.push(arrived)
	q.proceed()
}

// proceed begins arrived commands while there are free contexts, or makes the queue wait for turns.
func (q *TargetQueue) proceed() {
	for q.backlog.count > 0 && q.free.First() != nil && q.state == StateLive && !q.turns.Linked() {
		if d := q.cfg.Dispatcher; d != nil && d.defers(q) {
			d.wait(q)
			return
		}
		a, _ := q.backlog.pop()
		n := q.begin(a)
		if q.party != nil && !q.turns.Linked() {
			q.party.credit -= n
		}
	}
}

// begin begins the command of a capsule in a free context and returns its cost.
func (q *TargetQueue) begin(a arrival) int {
	c := q.free.Pop()
	q.active++
	c.recv, c.bytes, c.holds, c.given, c.posted = a.recv, a.data, true, false, 0
	c.state = commandHeld
	c.SQE, _ = capsule.DecodeCommand(q.arrivals.command(int(a.recv))) // its length was checked on arrival
	if q.identify(c) {
		received := q.arrivals.data(int(a.recv))
		received = received[:min(int(a.data), len(received))]
		c.wrong = c.data.interpret(&c.SQE, received, q.limits)
	} else {
		c.data = data{remotes: c.data.remotes[:0]}
		c.wrong = capsule.StatusCommandIDConflict | capsule.StatusDNR
	}
	c.given = true
	n := commandCost + c.data.length
	q.handler.Command(c)
	return n
}

// identify registers the command's identifier. It returns false if another command has it and the handler does not give
// that one up.
func (q *TargetQueue) identify(c *Command) bool {
	other := q.inUse.add(c)
	if other == nil {
		return true
	}
	if other.state != commandHeld || !q.handler.Reused(other) {
		return false
	}
	q.drop(other)
	return q.inUse.add(c) == nil
}

// drop ends a command without a response. Its submission queue entry has been consumed, which the next response
// reports.
func (q *TargetQueue) drop(c *Command) {
	q.inUse.remove(c)
	q.collectRecv(int(c.recv))
	c.holds = false
	q.nextHead()
	q.slot.Flush()
	q.giveBack(c)
}

// collectRecv collects receive i, to be posted.
func (q *TargetQueue) collectRecv(i int) {
	if q.cfg.Shared != nil {
		q.returnRecv(i)
		return
	}
	q.recvs = append(q.recvs, rdmatransport.RecvWR{
		ID: q.slot.ID(makeTag(tagRecv, int32(i))), SGL: q.memory.recvSGL(i),
	})
}

// returnRecv gives receive i back to the shared receives, if it is shared.
func (q *TargetQueue) returnRecv(i int) {
	if q.cfg.Shared != nil {
		q.held--
		q.cfg.Shared.give(i)
	}
}

func (q *TargetQueue) postRecvs() error {
	if q.cfg.Shared != nil {
		return q.cfg.Shared.post()
	}
	if len(q.recvs) == 0 {
		return nil
	}
	err := q.qp.PostRecv(q.recvs)
	q.recvs = q.recvs[:0]
	return err
}

// An arrival is a received capsule.
type arrival struct {
	recv int32
	data int32 // bytes after the command
}

// A backlog is a ring of capsules that wait for a context or for a turn. It holds no more than there are receives.
type backlog struct {
	ring        []arrival
	head, count int
}

func (b *backlog) init(size int) { b.ring = make([]arrival, size) }

func (b *backlog) push(a arrival) {
	b.ring[(b.head+b.count)%len(b.ring)] = a
	b.count++
}

func (b *backlog) pop() (arrival, bool) {
	if b.count == 0 {
		return arrival{}, false
	}
	a := b.ring[b.head]
	b.head = (b.head + 1) % len(b.ring)
	b.count--
	return a, true
}
