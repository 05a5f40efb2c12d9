package fabric

import "github.com/nvmeof-go/nvmeof/nvmeof/internal/list"

// fail ends the queue. The rest happens in the retry step, because fail may be called at any point of a turn.
func (q *TargetQueue) fail(err error) {
	if q.state != StateLive {
		return
	}
	q.state, q.err = StateFailing, err
	q.slot.Retry()
}

// bury sets aside a command to be returned to the handler, because the queue has ended. It is returned later since the
// caller is the handler itself.
func (q *TargetQueue) bury(c *Command) {
	c.state = commandDead
	q.dead.Push(c, &c.link)
	q.slot.Retry()
}

func (t *targetConsumer) Retry() {
	q := (*TargetQueue)(t)
	switch q.state {
	case StateLive:
		q.slot.Flush() // the read budget has room
		return
	case StateFailing:
		q.tearDown()
	}
	for c := q.dead.Pop(); c != nil; c = q.dead.Pop() {
		q.giveBack(c)
	}
	if q.state == StateDrained && q.active == 0 {
		q.state = StateClosed
		q.slot.Detach()
		q.handler.Closed()
	}
}

// tearDown closes the queue pair, after which the provider uses no memory of the queue, and collects every command that
// the handler does not own.
func (q *TargetQueue) tearDown() {
	q.cfg.Shard.StopTimer(&q.progress.timer)
	q.qp.Disconnect()
	q.cfg.Shared.leave(q.qp)
	if q.turns.Linked() {
		q.cfg.Dispatcher.forget(q)
	}
	for a, ok := q.backlog.pop(); ok; a, ok = q.backlog.pop() {
		q.returnRecv(int(a.recv))
	}
	if err := q.qp.Close(); err != nil && q.err == nil {
		q.err = err
	}
	q.state = StateDrained
	q.reads.drop()
	q.fetches, q.responses = list.List[Command]{}, list.List[Command]{}
	for i := range q.commands {
		c := &q.commands[i]
		switch c.state {
		case commandFetching, commandResponding, commandSent:
			c.state = commandDead
			q.dead.Push(c, &c.link)
		}
	}
	q.handler.Failed(q.err)
}
