package host

import (
	"cmp"
	"math"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A lane is an I/O queue: it cuts operations into commands. It belongs to its
// queue's loop.
type lane struct {
	*link
	slot    shard.Slot
	all     []chunk       // as many as the queue has room for
	chunks  *chunk        // idle
	waiting list.List[op] // operations of which not all has been sent, in order

	spare   shard.Buffer // came for the first in waiting
	waiter  shard.BufferWaiter
	dead    bool
	serving bool
}

func newLane(l *link) *lane {
	n := &lane{link: l}
	n.waiter.Ready = func(b shard.Buffer) {
		n.spare = b
		n.slot.Retry()
	}
	n.all = make([]chunk, l.depth-1)
	for i := range n.all {
		c := &n.all[i]
		c.request.Done = func(*fabric.Request) { n.finish(c) }
		n.idle(c)
	}
	return n
}

func (l *lane) idle(c *chunk) { c.op, c.next, l.chunks = nil, l.chunks, c }

// attach is called in the loop before the first operation.
func (l *lane) attach() {
	l.shard.Attach(&l.slot, l)
	l.onEnd = l.die
	l.dead = l.queue.State() >= fabric.StateFailing
}

// detach is called from outside the loop at the very end.
func (l *lane) detach() error { return l.shard.Call(l.slot.Detach) }

// begin starts an operation, in the loop.
func (l *lane) begin(o *op) {
	o.pos, o.flying, o.err, o.live = 0, 0, nil, true
	if o.stop != nil {
		o.fail(o.stop)
	}
	l.waiting.Push(o, &o.link)
	l.serve()
}

// serve sends what it can of the operations that wait, in order.
func (l *lane) serve() {
	if l.serving {
		return // Done of a request that failed at once
	}
	l.serving = true
	for o := l.waiting.First(); o != nil; o = l.waiting.First() {
		if l.dead {
			o.fail(l.lostOf(o))
		}
		for !o.allSent() {
			if err := o.ns.barred(); err != nil { // since it began
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

func (l *lane) lostErr() error {
	if err := l.controller.Err(); err != nil {
		return err
	}
	return l.queue.Err()
}

// lostOf is what an operation fails with when the queue has ended before all of it
// was sent.
func (l *lane) lostOf(o *op) error {
	if o.pos == 0 {
		return &UnsentError{l.lostErr()}
	}
	return l.lostErr()
}

// step is how many bytes the next command of an operation covers: whole blocks,
// no more than the controller takes and the 16 bits of NLB can say.
func (l *lane) step(o *op) int64 {
	lim, left := &l.controller.limits, o.length-o.pos
	switch o.kind {
	case opRead:
		return min(left, o.ns.blocks(lim.read))
	case opWrite, opCompare:
		return min(left, o.ns.blocks(lim.write))
	case opVerify:
		return min(left, o.ns.blocks(lim.verify))
	case opZeroes:
		return min(left, o.ns.blocks(lim.zeroes))
	case opTrim:
		return min(left, int64(lim.trim)<<o.ns.shift)
	}
	return left
}

// blocks rounds a limit in bytes to what one command can move.
func (n *Namespace) blocks(limit int) int64 {
	block := int64(1) << n.shift
	return max(block, min(int64(limit)&^(block-1), math.MaxUint16<<n.shift))
}

// send sends one command of an operation. It reports false when that has to
// wait for another to end, or for a buffer.
func (l *lane) send(o *op) bool {
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
		if o.kind == opTrim {
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
	c.place(l.pool, b, n)
	if p != nil && p.memory != nil {
		o.pos += l.addParts(c)
	}
	o.pos += step
	o.flying++
	if err := l.queue.Submit(&c.request); err != nil {
		c.request.Err = err
		l.finish(c)
	}
	return true
}

func (o *op) needsBuffer() bool {
	switch o.kind {
	case opRead, opWrite, opCompare:
		return o.memory == nil
	case opTrim:
		return true
	}
	return false
}

// buffer takes one of at least n bytes, or queues for it.
func (l *lane) buffer(n int) (shard.Buffer, bool) {
	if l.spare.Valid() {
		b := l.spare
		l.spare = shard.Buffer{}
		if len(b.Bytes()) >= n {
			return b, true
		}
		l.pool.release(b)
	}
	if l.waiter.Waiting() {
		return shard.Buffer{}, false
	}
	b, ok := l.pool.arena.Alloc(n)
	if !ok {
		l.pool.arena.Wait(&l.waiter, n)
		l.pool.slot.Retry() // it may be there: others waited in front
	}
	return b, ok
}

// finish takes the end of a command.
func (l *lane) finish(c *chunk) {
	o, r := c.op, &c.request
	if r.Err != nil {
		o.err = cmp.Or(o.stop, l.explain(r.Err)) // says more than the status of another command
	} else if err := statusError(&r.Command, false, r.Completion); err != nil {
		o.fail(cmp.Or(o.stop, err))
	} else if o.kind == opRead && c.buffer.Valid() {
		c.copyOut()
	}
	if c.buffer.Valid() {
		l.pool.release(c.buffer)
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
func (l *lane) die() {
	l.dead = true
	l.dropSpare()
	l.serve()
}

// Complete, Retry and Flush implement [shard.Consumer]; the queue has the work
// requests.
func (l *lane) Complete(*rdmatransport.Completion, uint32) {}
func (l *lane) Retry()                                     { l.serve() }
func (l *lane) Flush()                                     {}
