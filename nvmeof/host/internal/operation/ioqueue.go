package operation

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// An IOQueue is an I/O queue that cuts operations into commands. It belongs to its
// queue's loop.
type IOQueue struct {
	Queue   *association.Queue
	limits  Limits
	slot    shard.Slot
	all     []chunk       // as many as the queue has room for
	chunks  *chunk        // idle
	waiting list.List[Op] // operations of which not all has been sent, in order

	spare   shard.Buffer // came for the first in waiting
	waiter  shard.BufferWaiter
	dead    bool
	serving bool
}

// NewIOQueue returns one over a queue that is connected.
func NewIOQueue(q *association.Queue, limits Limits) *IOQueue {
	n := &IOQueue{Queue: q, limits: limits}
	n.waiter.Ready = func(b shard.Buffer) {
		n.spare = b
		n.slot.Retry()
	}
	n.all = make([]chunk, q.Depth-1)
	for i := range n.all {
		c := &n.all[i]
		c.request.Done = func(*fabric.Request) { n.finish(c) }
		n.idle(c)
	}
	return n
}

func (q *IOQueue) idle(c *chunk) { c.op, c.next, q.chunks = nil, q.chunks, c }

// Attach is called in the loop before the first operation.
func (q *IOQueue) Attach() {
	q.Queue.Shard.Attach(&q.slot, q)
	q.Queue.OnEnd = q.die
	q.dead = q.Queue.Fabric.State() >= fabric.StateFailing
}

// Detach is called from outside the loop at the very end.
func (q *IOQueue) Detach() error { return q.Queue.Shard.Call(q.slot.Detach) }

// Begin starts an operation, in the loop.
func (q *IOQueue) Begin(o *Op) {
	o.pos, o.flying, o.Err, o.live = 0, 0, nil, true
	if o.Stop != nil {
		o.fail(o.Stop)
	}
	q.waiting.Push(o, &o.link)
	q.serve()
}

// serve sends what it can of the operations that wait, in order.
func (q *IOQueue) serve() {
	if q.serving {
		return // Done of a request that failed at once
	}
	q.serving = true
	for o := q.waiting.First(); o != nil; o = q.waiting.First() {
		if q.dead {
			o.fail(q.lostOf(o))
		}
		for !o.allSent() {
			if err := o.Namespace.Bar.Err(); err != nil { // since it began
				o.fail(err)
				break
			}
			if !q.send(o) {
				q.serving = false
				return
			}
		}
		q.waiting.Pop()
		if o.flying == 0 {
			o.end()
		}
	}
	q.serving = false
}

// lostOf is what an operation fails with when the queue has ended before all of it
// was sent.
func (q *IOQueue) lostOf(o *Op) error {
	if o.pos == 0 {
		return &Unsent{q.Queue.Lost()}
	}
	return q.Queue.Lost()
}

// step is how many bytes the next command of an operation covers: whole blocks,
// no more than the controller takes and the 16 bits of NLB can say.
func (q *IOQueue) step(o *Op) int64 {
	lim, left := &q.limits, o.length-o.pos
	switch o.Kind {
	case Read:
		return min(left, o.Namespace.blocks(lim.Read))
	case Write, Compare:
		return min(left, o.Namespace.blocks(lim.Write))
	case Verify:
		return min(left, o.Namespace.blocks(lim.Verify))
	case Zeroes:
		return min(left, o.Namespace.blocks(lim.Zeroes))
	case Trim:
		return min(left, int64(lim.Trim)<<o.Namespace.Shift)
	}
	return left
}

// send sends one command of an operation. It reports false when that has to
// wait for another to end, or for a buffer.
func (q *IOQueue) send(o *Op) bool {
	c := q.chunks
	if c == nil {
		return false
	}
	step := q.step(o)
	var p *piece
	if o.vector != nil {
		p, step = o.enter(step)
	}
	n := int(step)
	var b shard.Buffer
	if o.needsBuffer() {
		size := n
		if o.Kind == Trim {
			size = shard.PageSize
		}
		var ok bool
		if b, ok = q.buffer(size); !ok {
			return false
		}
	}
	q.chunks = c.next
	c.prepare(o, n)
	c.piece = p
	c.place(q.Queue.Pool, b, n)
	if p != nil && p.memory != nil {
		o.pos += q.addParts(c)
	}
	o.pos += step
	o.flying++
	if err := q.Queue.Fabric.Submit(&c.request); err != nil {
		c.request.Err = err
		q.finish(c)
	}
	return true
}

func (o *Op) needsBuffer() bool {
	switch o.Kind {
	case Read, Write, Compare:
		return o.memory == nil
	case Trim:
		return true
	}
	return false
}

// buffer takes one of at least n bytes, or queues for it.
func (q *IOQueue) buffer(n int) (shard.Buffer, bool) {
	if q.spare.Valid() {
		b := q.spare
		q.spare = shard.Buffer{}
		if len(b.Bytes()) >= n {
			return b, true
		}
		q.Queue.Pool.Release(b)
	}
	if q.waiter.Waiting() {
		return shard.Buffer{}, false
	}
	return q.Queue.Pool.Alloc(&q.waiter, n)
}

// finish takes the end of a command.
func (q *IOQueue) finish(c *chunk) {
	o, r := c.op, &c.request
	if r.Err != nil {
		o.Err = cmp.Or(o.Stop, q.Queue.Explain(r.Err)) // says more than the status of another command
	} else if !r.Completion.Status.OK() {
		o.fail(cmp.Or[error](o.Stop, &Refusal{r.Command, r.Completion}))
	} else if o.Kind == Read && c.buffer.Valid() {
		c.copyOut()
	}
	if c.buffer.Valid() {
		q.Queue.Pool.Release(c.buffer)
		c.buffer = shard.Buffer{}
	}
	q.idle(c)
	o.flying--
	if o.flying == 0 && o.allSent() && q.waiting.First() != o {
		o.end()
	}
	q.serve()
}

// die is called when the queue has ended and all commands are back.
func (q *IOQueue) die() {
	q.dead = true
	q.dropSpare()
	q.serve()
}

// Complete, Retry and Flush implement [shard.Consumer]; the queue has the work
// requests.
func (q *IOQueue) Complete(*rdmatransport.Completion, uint32) {}
func (q *IOQueue) Retry()                                     { q.serve() }
func (q *IOQueue) Flush()                                     {}
