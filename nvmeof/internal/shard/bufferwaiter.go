package shard

import (
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A BufferWaiter waits for a buffer of an arena. It is a part of whatever needs
// the buffer, and must not be copied while it waits.
type BufferWaiter struct {
	// Ready takes the buffer, in the loop. Set it once.
	Ready func(Buffer)

	size int
	link list.Link[BufferWaiter]
}

// Waiting reports whether w is in the queue.
func (w *BufferWaiter) Waiting() bool { return w.link.Linked() }

// Wait queues w for a buffer of at least size bytes behind those who wait
// already: after an Alloc that failed.
func (a *Arena) Wait(w *BufferWaiter, size int) {
	if w.Waiting() {
		panic("arena: waiter is queued twice")
	}
	orderOf(size) // refuses a size that would never come
	w.size = size
	a.waiters.Push(w, &w.link)
	a.ready = true
}

// Cancel takes w out of the queue, if it is there.
func (a *Arena) Cancel(w *BufferWaiter) {
	if w.Waiting() {
		a.waiters.Remove(&w.link)
		a.ready = a.waiters.First() != nil
	}
}

// Serve gives buffers to waiters in order, up to the first that gets none, and
// reports whether any got one. The shard calls it for its own arena in each
// turn; the owner of another calls it after Release, but not from Ready.
func (a *Arena) Serve() bool {
	if !a.ready {
		return false
	}
	a.ready = false
	served := false
	for w := a.waiters.First(); w != nil; w = a.waiters.First() {
		b, ok := a.take(w.size)
		if !ok {
			break
		}
		a.waiters.Remove(&w.link)
		w.Ready(b)
		served = true
	}
	return served
}

// alignTo returns the part of b that starts at a multiple of n, a power of two.
func alignTo(b []byte, n uintptr) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b[(n-address&(n-1))&(n-1):]
}
