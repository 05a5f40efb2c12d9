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

	share *Share // in which it waits, or waited last
	size  int
	link  list.Link[BufferWaiter]
}

// Waiting reports whether w is in the queue.
func (w *BufferWaiter) Waiting() bool { return w.link.Linked() }

// Cancel takes w out of the queue, if it is there.
func (w *BufferWaiter) Cancel() {
	if w.Waiting() {
		w.share.drop(w)
	}
}

// Wait is [Share.Wait] for the single party that an arena is for.
func (a *Arena) Wait(w *BufferWaiter, size int) { a.own.Wait(w, size) }

// Cancel is [BufferWaiter.Cancel].
func (a *Arena) Cancel(w *BufferWaiter) { w.Cancel() }

// alignTo returns the part of b that starts at a multiple of n, a power of two.
func alignTo(b []byte, n uintptr) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b[(n-address&(n-1))&(n-1):]
}
