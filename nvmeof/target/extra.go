package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Data that commands read but do not send to the host goes through scratch buffers of at most scratchChunk bytes.
// They have an arena of their own: a command that waits for a scratch buffer may hold a buffer of the shard, and
// one that has a scratch buffer only waits for the store.
const (
	scratchChunk = 256 << 10
	scratchSize  = 4 << 20
)

// An extra has the state of requests that do more than read, write or flush. It is allocated when first needed and
// is kept with the request.
type extra struct {
	at      int   // Dataset Management and Copy: the index of the range
	rest    span  // Compare, Verify and Copy: the range still to be read
	to      int64 // Copy: the offset of the next bytes
	scratch shard.Buffer
	waiter  shard.BufferWaiter
	partner *request // the other half of a fused operation under way
	ended   []func() // called when the request has ended, which was to end early
}

// A span is a range of a store in bytes.
type span struct{ offset, length int64 }

// wantExtra returns the request's extra, and creates it if necessary.
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

// release frees the scratch buffer and calls the functions that wait for the end of the request.
func (x *extra) release(r *request) {
	if x.scratch.Valid() {
		x.scratch.Release()
		x.scratch = shard.Buffer{}
	}
	for _, f := range x.ended {
		f()
	}
	x.ended = nil
}

// given ends a request that may not have been answered because its queue has ended. The other half of a fused
// operation ends with it.
func (x *extra) given(r *request) {
	if other := r.part(); other != nil {
		other.finish(capsule.StatusSQDeleted)
	}
}

// readThrough reads a range of the store, part by part, into a scratch buffer. ioRow.step is called when the
// buffer has been allocated, and ioRow.done after each part.
func (r *request) readThrough(s span) {
	x, share := r.wantExtra(), &r.queue.host.scratch
	x.rest = s
	if x.scratch.Valid() {
		r.io.step(r)
		return
	}
	b, ok := share.Alloc(scratchChunk)
	if ok {
		x.waiter.Ready(b)
		return
	}
	r.stage = stageScratch
	share.Wait(&x.waiter, scratchChunk)
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
