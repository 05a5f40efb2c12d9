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
	Queue  *association.Queue
	limits Limits
	index  int // among those of the controller
	slot   shard.Slot
	all    []chunk // as many as the queue has room for
	chunks *chunk  // idle
	idle   int     // how many

	lanes   []*Lane         // those that were used
	line    list.List[Lane] // those with operations that wait, in the order of their turns
	full    list.List[Lane] // those that may use no more entries now
	quota   quota
	dead    bool
	serving bool
}

// laneTurn is how many commands are sent for a namespace while others wait.
const laneTurn = 8

// NewIOQueue returns one over a queue that is connected: index is its number from 0 among
// those of its controller, which has these namespaces.
func NewIOQueue(q *association.Queue, limits Limits, index int, ns *Namespaces) *IOQueue {
	n := &IOQueue{Queue: q, limits: limits, index: index, quota: quota{namespaces: &ns.count}}
	n.all = make([]chunk, q.Depth-1)
	for i := range n.all {
		c := &n.all[i]
		c.request.Done = func(*fabric.Request) { n.finish(c) }
		n.keep(c)
	}
	return n
}

// keep and take are for chunks that are idle.
func (q *IOQueue) keep(c *chunk) {
	c.op, c.next, q.chunks = nil, q.chunks, c
	q.idle++
}

func (q *IOQueue) take() *chunk {
	c := q.chunks
	q.chunks = c.next
	q.idle--
	return c
}

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
	q.divide()
	l := q.lane(o.Namespace)
	o.lane, o.pos, o.flying, o.Err, o.live = l, 0, 0, nil, true
	if o.Stop != nil {
		o.fail(o.Stop)
	}
	l.waiting.Push(o, &o.link)
	if !l.full {
		l.ready()
		q.serve()
	}
}

// serve sends what it can of the operations that wait, of each namespace in turn and in
// order within it.
func (q *IOQueue) serve() {
	if q.serving {
		return // Done of a request that failed at once
	}
	q.serving = true
	for l := q.line.First(); l != nil && q.serveLane(l); l = q.line.First() {
	}
	q.serving = false
}

// serveLane is a lane's turn. It reports false when the others have to wait for a command
// to end as well.
func (q *IOQueue) serveLane(l *Lane) bool {
	sent := 0
	for o := l.waiting.First(); o != nil; o = l.waiting.First() {
		if q.dead || q.Queue.Fabric.State() == fabric.StateClosed { // or it is about to be, and gives back what was sent
			o.fail(q.lostOf(o))
		}
		for !o.allSent() {
			if err := o.Namespace.Bar.Err(); err != nil && o.task == nil { // since it began
				o.fail(err)
				break
			}
			if sent >= laneTurn && l.link.Next() != nil {
				q.line.Remove(&l.link)
				q.line.Push(l, &l.link)
				return true
			}
			switch n := o.entries(); {
			case q.idle < n:
				return false
			case !q.quota.may(l, n):
				q.line.Remove(&l.link)
				q.full.Push(l, &l.link)
				l.full = true
				return true
			case !q.send(o):
				q.line.Remove(&l.link)
				return true
			}
			sent++
		}
		l.waiting.Pop()
		if o.flying == 0 {
			o.end()
		}
	}
	l.rest()
	return true
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

// entries is how many entries of the queue the next command of an operation takes.
func (o *Op) entries() int {
	if o.task != nil {
		return o.task.task.Commands()
	}
	return 1
}

// send sends one command of an operation, for which there are entries. It reports false
// when that has to wait for a buffer.
func (q *IOQueue) send(o *Op) bool {
	if o.task != nil {
		q.sendTask(o)
		return true
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
		if b, ok = o.lane.buffer(size); !ok {
			return false
		}
	}
	c := q.take()
	q.quota.add(o.lane, 1)
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
func (l *Lane) buffer(n int) (shard.Buffer, bool) {
	p := l.queue.Queue.Pool
	if l.spare.Valid() {
		b := l.spare
		l.spare = shard.Buffer{}
		if len(b.Bytes()) >= n {
			return b, true
		}
		p.Release(b)
	}
	return p.Alloc(&l.share, &l.waiter, n)
}

// finish takes the end of a command.
func (q *IOQueue) finish(c *chunk) {
	o, r := c.op, &c.request
	l := o.lane
	if r.Err != nil {
		o.Err = q.Queue.Explain(r.Err) // says more than the status of another command
		if o.Stop != nil && (r.Err == fabric.ErrCanceled || !o.changes()) {
			o.Err = o.Stop // nothing of it can happen any more
		}
	} else if !r.Completion.Status.OK() {
		o.fail(cmp.Or[error](o.Stop, &Refusal{r.Command, r.Completion}))
	} else if o.Kind == Read && c.buffer.Valid() {
		c.copyOut()
	}
	if c.buffer.Valid() {
		q.Queue.Pool.Release(c.buffer)
		c.buffer = shard.Buffer{}
	}
	q.keep(c)
	q.vacate(l, 1)
	q.ended(o)
}

// ended takes the end of a command of an operation.
func (q *IOQueue) ended(o *Op) {
	o.flying--
	if o.flying == 0 && o.allSent() && o.lane.waiting.First() != o {
		o.end()
	}
	q.serve()
}

// die is called when the queue has ended and all commands are back.
func (q *IOQueue) die() {
	q.dead = true
	for _, l := range q.lanes {
		l.dropSpare()
		if l.waiting.First() != nil {
			l.ready()
		}
	}
	q.serve()
}

// Complete, Retry and Flush implement [shard.Consumer]; the queue has the work
// requests.
func (q *IOQueue) Complete(*rdmatransport.Completion, uint32) {}
func (q *IOQueue) Retry()                                     { q.serve() }
func (q *IOQueue) Flush()                                     {}
