package shard

import (
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A BufferWaiter waits for a buffer of an arena. It is embedded in the structure that needs the buffer, and must not be
// copied while it waits.
type BufferWaiter struct {
	// Ready receives the buffer, in the loop. Set it once.
	Ready func(Buffer)

	share *Share // in which it waits, or waited last
	size  int
	link  list.Link[BufferWaiter]
}

// Waiting reports whether w is queued.
func (w *BufferWaiter) Waiting() bool { return w.link.Linked() }

// Cancel removes w from the queue, if it is queued.
func (w *BufferWaiter) Cancel() {
	if w.Waiting() {
		w.share.drop(w)
	}
}

// Wait is [Share.Wait] of the arena's own share.
func (a *Arena) Wait(w *BufferWaiter, size int) { a.own.Wait(w, size) }

// Cancel is [BufferWaiter.Cancel].
func (a *Arena) Cancel(w *BufferWaiter) { w.Cancel() }

// alignTo returns the part of b that starts at a multiple of n, a power of two.
func alignTo(b []byte, n uintptr) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b[(n-address&(n-1))&(n-1):]
}
