package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// What a command reads that its host does not see goes through scratch buffers of
// scratchChunk bytes at most. They are of an arena of their own: who waits for one may
// hold a buffer of the shard's, and who has one waits for the store alone.
const (
	scratchChunk = 256 << 10
	scratchSize  = 4 << 20
)

// An extra is what a request has beyond those that only read, write or flush. It
// is made when first needed and stays with the request.
type extra struct {
	at      int   // Dataset Management and Copy: the range
	rest    span  // Compare, Verify and Copy: what is to be read yet
	to      int64 // Copy: where the next bytes go
	scratch shard.Buffer
	waiter  shard.BufferWaiter
	partner *request // the other half of a fused operation under way
	ended   []func() // to be told when the request has ended early
}

// A span is a range of a store in bytes.
type span struct{ offset, length int64 }

// wantExtra returns the request's extra.
func (r *request) wantExtra() *extra {
	if r.extra == nil {
		x := &extra{}
		x.waiter.Ready = func(b shard.Buffer) {
			x.scratch = b
			r.io.step(r)
		}
		r.extra = x
	}
	return r.extra
}

// release gives the scratch buffer back and tells those who wait for the end.
func (x *extra) release(r *request) {
	if x.scratch.Valid() {
		scratch := r.queue.worker.scratch
		scratch.Release(x.scratch)
		x.scratch = shard.Buffer{}
		scratch.Serve()
	}
	for _, f := range x.ended {
		f()
	}
	x.ended = nil
}

// given is the end of a request that may not have been answered: its queue is
// gone. The other half of a fused operation goes with it.
func (x *extra) given(r *request) {
	if other := r.part(); other != nil {
		other.finish(capsule.StatusSQDeleted)
	}
}

// readThrough reads a range of the store, part by part, into a scratch buffer.
// ioRow.step is called with the buffer in hand and at each part.
func (r *request) readThrough(s span) {
	x, arena := r.wantExtra(), r.queue.worker.scratch
	x.rest = s
	if x.scratch.Valid() {
		r.io.step(r)
		return
	}
	b, ok := arena.Alloc(scratchChunk)
	if ok {
		x.waiter.Ready(b)
		return
	}
	r.stage = stageScratch
	arena.Wait(&x.waiter, scratchChunk)
}

// readNext reads the next part.
func (r *request) readNext() {
	x := r.extra
	n := min(x.rest.length, scratchChunk)
	r.op.Op, r.op.FUA = backend.OpRead, false
	r.op.Offset, r.op.Length, r.op.Buf = x.rest.offset, n, x.scratch.Bytes()[:n]
	x.rest = span{x.rest.offset + n, x.rest.length - n}
	r.submit()
}
