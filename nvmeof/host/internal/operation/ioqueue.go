package operation

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// An IOQueue splits operations into commands for an I/O queue. It is owned by the queue's loop.
type IOQueue struct {
	Queue  *association.Queue
	limits Limits
	index  int // among the controller's I/O queues
	slot   shard.Slot
	all    []chunk // one per entry of the queue
	chunks *chunk  // list of idle chunks
	idle   int     // number of idle chunks

	lanes   []*Lane         // the lanes in use
	line    list.List[Lane] // lanes with waiting operations, in the order of their turns
	full    list.List[Lane] // lanes that may not use more entries now
	quota   quota
	dead    bool
	serving bool
}

// laneTurn is how many commands are sent for a namespace in a row while others wait.
const laneTurn = 8

// NewIOQueue returns an IOQueue for a connected queue. index is its number, from 0, among the I/O queues of its
// controller, and ns are the controller's namespaces.
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

// keep adds a chunk to the idle ones.
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

// Attach must be called in the loop before the first operation.
func (q *IOQueue) Attach() {
	q.Queue.Shard.Attach(&q.slot, q)
	q.Queue.OnEnd = q.onEnd
	q.dead = q.Queue.Fabric.State() >= fabric.StateFailing
}

// Detach must be called outside the loop when the queue is no longer used.
func (q *IOQueue) Detach() error { return q.Queue.Shard.Call(q.slot.Detach) }

// Begin starts an operation. It must be called in the loop.
func (q *IOQueue) Begin(o *Op) {
	q.divide()
	l := q.lane(o.Namespace)
	o.lane, o.pos, o.inFlight, o.Err, o.live = l, 0, 0, nil, true
	if o.Stop != nil {
		o.fail(o.Stop)
	}
	l.waiting.Push(o, &o.link)
	if !l.full {
		l.ready()
		q.serve()
	}
}

// serve sends what it can of the waiting operations: of each namespace in turn, and in order within a namespace.
func (q *IOQueue) serve() {
	if q.serving {
		return // called by Done of a request that failed at once
	}
	q.serving = true
	for l := q.line.First(); l != nil && q.serveLane(l); l = q.line.First() {
	}
	q.serving = false
}

// serveLane is a lane's turn. It returns false if no lane can send more until a command has completed.
func (q *IOQueue) serveLane(l *Lane) bool {
	sent := 0
	for o := l.waiting.First(); o != nil; o = l.waiting.First() {
		if q.dead || q.Queue.Fabric.State() == fabric.StateClosed { // a closed queue will be dead soon, and returns what was sent
			o.fail(q.lostOf(o))
		}
		for !o.allSent() {
			if err := o.Namespace.Bar.Err(); err != nil && o.task == nil { // set since the operation began
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
		if o.inFlight == 0 {
			o.end()
		}
	}
	l.rest()
	return true
}

// lostOf returns the error of an operation whose queue has ended before all of it was sent.
func (q *IOQueue) lostOf(o *Op) error {
	if o.pos == 0 {
		return &Unsent{q.Queue.Lost()}
	}
	return q.Queue.Lost()
}

// step returns how many bytes the next command of an operation covers: whole blocks, no more than the controller takes
// and than the 16 bits of NLB can express.
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

// entries returns how many queue entries the next command of an operation occupies.
func (o *Op) entries() int {
	if o.task != nil {
		return o.task.task.Commands()
	}
	return 1
}

// send sends one command of an operation, for which there are entries. It returns false if it must wait for a buffer.
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
	o.inFlight++
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

// buffer takes a buffer of at least n bytes, or waits for one.
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

// finish handles the end of a command.
func (q *IOQueue) finish(c *chunk) {
	o, r := c.op, &c.request
	l := o.lane
	if r.Err != nil {
		o.Err = q.Queue.Explain(r.Err) // replaces the status of another command: it says more
		if o.Stop != nil && (r.Err == fabric.ErrCanceled || !o.changes()) {
			o.Err = o.Stop // no part of it can take effect any more
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

// ended updates an operation after the end of one of its commands.
func (q *IOQueue) ended(o *Op) {
	o.inFlight--
	if o.inFlight == 0 && o.allSent() && o.lane.waiting.First() != o {
		o.end()
	}
	q.serve()
}

// onEnd is called when the queue has ended and all commands have been returned.
func (q *IOQueue) onEnd() {
	q.dead = true
	for _, l := range q.lanes {
		l.dropSpare()
		if l.waiting.First() != nil {
			l.ready()
		}
	}
	q.serve()
}

// Complete, Retry and Flush implement [shard.Consumer]. The work requests are those of the association's queue.
func (q *IOQueue) Complete(*rdmatransport.Completion, uint32) {}
func (q *IOQueue) Retry()                                     { q.serve() }
func (q *IOQueue) Flush()                                     {}
