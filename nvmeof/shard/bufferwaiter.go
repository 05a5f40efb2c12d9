package shard

import "unsafe"

// A BufferWaiter waits for a buffer of an arena. It is a part of whatever needs
// the buffer, and must not be copied while it waits.
type BufferWaiter struct {
	// Ready takes the buffer, in the loop. Set it once.
	Ready func(Buffer)

	size       int
	prev, next *BufferWaiter
	waiting    bool
}

// Waiting reports whether w is in the queue.
func (w *BufferWaiter) Waiting() bool { return w.waiting }

// Wait queues w for a buffer of at least size bytes behind those who wait
// already: after an Alloc that failed.
func (a *Arena) Wait(w *BufferWaiter, size int) {
	if w.waiting {
		panic("arena: waiter is queued twice")
	}
	orderOf(size) // refuses a size that would never come
	w.size, w.waiting = size, true
	a.waiters.add(w)
	a.ready = true
}

// Cancel takes w out of the queue, if it is there.
func (a *Arena) Cancel(w *BufferWaiter) {
	if w.waiting {
		a.waiters.remove(w)
		a.ready = a.waiters.first != nil
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
	for w := a.waiters.first; w != nil; w = a.waiters.first {
		b, ok := a.take(w.size)
		if !ok {
			break
		}
		a.waiters.remove(w)
		w.Ready(b)
		served = true
	}
	return served
}

type bufferWaiterList struct {
	first, last *BufferWaiter
}

func (l *bufferWaiterList) add(w *BufferWaiter) {
	w.prev, w.next = l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *bufferWaiterList) remove(w *BufferWaiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.waiting, w.prev, w.next = false, nil, nil
}

// alignTo returns the part of b that starts at a multiple of n, a power of two.
func alignTo(b []byte, n uintptr) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b[(n-address&(n-1))&(n-1):]
}
