package operation

import (
	"context"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Blocking is an operation that a goroutine waits for.
type Blocking struct {
	Op
	waiter *shard.Waiter
}

// NewBlocking returns an operation on an I/O queue.
func NewBlocking(q *IOQueue) *Blocking {
	b := &Blocking{}
	b.Queue = q
	b.waiter = q.Queue.Shard.NewWaiter(func() { q.Begin(&b.Op) })
	b.Done = func(*Op) { b.waiter.Done() }
	return b
}

// Await executes the operation and waits for it. If ctx ends first, its commands are aborted, and Await returns when
// they have completed or the queue is lost. If they may still change blocks then, the error is the reason of the loss.
// reusable reports whether b can be used for another operation.
func (b *Blocking) Await(ctx context.Context) (err error, reusable bool) {
	var unwatch func() bool
	if ctx.Done() != nil {
		unwatch = b.watch(ctx)
	}
	if err := b.waiter.Await(); err != nil { // the shard is closed, and may still hold the operation
		return association.ErrClosed, false
	}
	// If the AfterFunc has started, its cancellation may still reach the operation.
	return b.Err, unwatch == nil || unwatch()
}

// watch cancels the operation when ctx ends.
func (b *Blocking) watch(ctx context.Context) (unwatch func() bool) {
	q := b.Queue
	return context.AfterFunc(ctx, func() { // stopped by unwatch at the latest
		q.Queue.Shard.Do(func() { q.Cancel(&b.Op, ctx.Err()) })
	})
}
