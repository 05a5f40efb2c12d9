package operation

import (
	"context"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Blocking is an operation with the goroutine that waits for it.
type Blocking struct {
	Op
	waiter *shard.Waiter
}

// NewBlocking returns an operation on a I/O queue.
func NewBlocking(q *IOQueue) *Blocking {
	b := &Blocking{}
	b.Queue = q
	b.waiter = q.Queue.Shard.NewWaiter(func() { q.Begin(&b.Op) })
	b.Done = func(*Op) { b.waiter.Done() }
	return b
}

// Await carries out the operation and waits for it. When ctx ends before, its commands
// are aborted, and Await returns when they have their answers, or the queue is lost: where
// they may change blocks yet the error is the loss. reusable reports whether
// there can be another operation with b.
func (b *Blocking) Await(ctx context.Context) (err error, reusable bool) {
	var unwatch func() bool
	if ctx.Done() != nil {
		unwatch = b.watch(ctx)
	}
	if err := b.waiter.Await(); err != nil { // the shard is closed, and may have left the operation as it was
		return association.ErrClosed, false
	}
	// A cancellation may be on its way to the operation.
	return b.Err, unwatch == nil || unwatch()
}

// watch cancels the operation when ctx ends.
func (b *Blocking) watch(ctx context.Context) (unwatch func() bool) {
	q := b.Queue
	return context.AfterFunc(ctx, func() { // at most until unwatch
		q.Queue.Shard.Do(func() { q.Cancel(&b.Op, ctx.Err()) })
	})
}
