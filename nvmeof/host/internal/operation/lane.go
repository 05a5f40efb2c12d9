package operation

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Lane is an I/O queue: it cuts operations into commands. It belongs to its
// queue's loop.
type Lane struct {
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

// NewLane makes a lane of a connected queue.
func NewLane(q *association.Queue, limits Limits) *Lane {
	n := &Lane{Queue: q, limits: limits}
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

func (l *Lane) idle(c *chunk) { c.op, c.next, l.chunks = nil, l.chunks, c }

// Attach is called in the loop before the first operation.
func (l *Lane) Attach() {
	l.Queue.Shard.Attach(&l.slot, l)
	l.Queue.OnEnd = l.die
	l.dead = l.Queue.Fabric.State() >= fabric.StateFailing
}

// Detach is called from outside the loop at the very end.
func (l *Lane) Detach() error { return l.Queue.Shard.Call(l.slot.Detach) }

// Begin starts an operation, in the loop.
func (l *Lane) Begin(o *Op) {
	o.pos, o.flying, o.Err, o.live = 0, 0, nil, true
	if o.Stop != nil {
		o.fail(o.Stop)
	}
	l.waiting.Push(o, &o.link)
	l.serve()
}

// serve sends what it can of the operations that wait, in order.
func (l *Lane) serve() {
	if l.serving {
		return // Done of a request that failed at once
	}
	l.serving = true
	for o := l.waiting.First(); o != nil; o = l.waiting.First() {
		if l.dead {
			o.fail(l.lostOf(o))
		}
		for !o.allSent() {
			if err := o.Namespace.Bar.Err(); err != nil { // since it began
				o.fail(err)
				break
			}
			if !l.send(o) {
				l.serving = false
				return
			}
		}
		l.waiting.Pop()
		if o.flying == 0 {
			o.end()
		}
	}
	l.serving = false
}

// lostOf is what an operation fails with when the queue has ended before all of it
// was sent.
func (l *Lane) lostOf(o *Op) error {
	if o.pos == 0 {
		return &Unsent{l.Queue.Lost()}
	}
	return l.Queue.Lost()
}

// step is how many bytes the next command of an operation covers: whole blocks,
// no more than the controller takes and the 16 bits of NLB can say.
func (l *Lane) step(o *Op) int64 {
	lim, left := &l.limits, o.length-o.pos
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
func (l *Lane) send(o *Op) bool {
	c := l.chunks
	if c == nil {
		return false
	}
	step := l.step(o)
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
		if b, ok = l.buffer(size); !ok {
			return false
		}
	}
	l.chunks = c.next
	c.prepare(o, n)
	c.piece = p
	c.place(l.Queue.Pool, b, n)
	if p != nil && p.memory != nil {
		o.pos += l.addParts(c)
	}
	o.pos += step
	o.flying++
	if err := l.Queue.Fabric.Submit(&c.request); err != nil {
		c.request.Err = err
		l.finish(c)
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
func (l *Lane) buffer(n int) (shard.Buffer, bool) {
	if l.spare.Valid() {
		b := l.spare
		l.spare = shard.Buffer{}
		if len(b.Bytes()) >= n {
			return b, true
		}
		l.Queue.Pool.Release(b)
	}
	if l.waiter.Waiting() {
		return shard.Buffer{}, false
	}
	return l.Queue.Pool.Alloc(&l.waiter, n)
}

// finish takes the end of a command.
func (l *Lane) finish(c *chunk) {
	o, r := c.op, &c.request
	if r.Err != nil {
		o.Err = cmp.Or(o.Stop, l.Queue.Explain(r.Err)) // says more than the status of another command
	} else if !r.Completion.Status.OK() {
		o.fail(cmp.Or[error](o.Stop, &Refusal{r.Command, r.Completion}))
	} else if o.Kind == Read && c.buffer.Valid() {
		c.copyOut()
	}
	if c.buffer.Valid() {
		l.Queue.Pool.Release(c.buffer)
		c.buffer = shard.Buffer{}
	}
	l.idle(c)
	o.flying--
	if o.flying == 0 && o.allSent() && l.waiting.First() != o {
		o.end()
	}
	l.serve()
}

// die is called when the queue has ended and all commands are back.
func (l *Lane) die() {
	l.dead = true
	l.dropSpare()
	l.serve()
}

// Complete, Retry and Flush implement [shard.Consumer]; the queue has the work
// requests.
func (l *Lane) Complete(*rdmatransport.Completion, uint32) {}
func (l *Lane) Retry()                                     { l.serve() }
func (l *Lane) Flush()                                     {}
