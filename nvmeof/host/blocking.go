package host

import (
	"context"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A blockingOp is an operation with the goroutine that waits for it.
type blockingOp struct {
	op
	waiter *shard.Waiter
}

// newBlockingOp returns an operation on one of the lanes, in turn. Idle ones are
// kept for each processor, so that a goroutine which waits for one operation
// after the other stays with its lane.
func (c *Controller) newBlockingOp() *blockingOp {
	l := c.nextLane()
	b := &blockingOp{}
	b.lane = l
	b.waiter = l.shard.NewWaiter(func() { l.begin(&b.op) })
	b.done = func(*op) { b.waiter.Done() }
	return b
}

func (c *Controller) nextLane() *lane {
	return c.lanes[int(c.turn.Add(1)-1)%len(c.lanes)]
}

// work is what a blocking operation does. The range, in bytes, of a read need not
// be whole blocks.
type work struct {
	kind        opKind
	buf         []byte
	vector      *vector // instead of buf
	off, length int64
	fua         bool
	free        bool // opZeroes: the storage may be freed
}

// do carries out an operation and waits for it. When ctx ends before, its commands
// are aborted, and do returns when they have their answers.
func (n *Namespace) do(ctx context.Context, w work) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.length == 0 {
		return n.controller.Err()
	}
	c := n.controller
	b := c.ops.Get().(*blockingOp)
	b.ns, b.kind, b.fua, b.free = n, w.kind, w.fua, w.free
	b.setRange(w.buf, w.off, w.length)
	b.vector = w.vector
	var unwatch func() bool
	if ctx.Done() != nil {
		unwatch = b.watch(ctx)
	}
	err := b.waiter.Await()
	if err != nil { // the shard is closed, and may have left the operation as it was
		return ErrClosed
	}
	err = b.err
	if unwatch != nil && !unwatch() {
		return err // the cancellation may be on its way to the operation: never used again
	}
	b.ns, b.buf, b.memory, b.vector, b.err = nil, nil, nil, nil, nil
	c.ops.Put(b)
	return err
}

// watch cancels the operation when ctx ends.
func (b *blockingOp) watch(ctx context.Context) (unwatch func() bool) {
	l := b.lane
	return context.AfterFunc(ctx, func() {
		l.shard.Do(func() { l.cancel(&b.op, ctx.Err()) })
	})
}

// setRange widens a range to whole blocks and finds the memory.
func (o *op) setRange(p []byte, off, length int64) {
	o.buf, o.bufOff, o.off, o.length = p, off, off, length
	o.memory, o.memoryOff = nil, 0
	if o.kind != opRead && o.kind != opWrite && o.kind != opCompare {
		return
	}
	block := int64(1)<<o.ns.shift - 1
	o.off = off &^ block
	o.length = (off+length+block)&^block - o.off
	if o.length == length {
		o.memory, o.memoryOff = o.ns.controller.find(p)
	}
}
