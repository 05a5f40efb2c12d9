package rbd

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A starter is a thread of C's that begins calls, as C knows it (struct nr_starter). The rings that have
// some are in its list, from which it takes them all at once.
type starter struct {
	list   uint64
	asleep uint32
	over   uint32
	_      uint64 // the thread; C's
}

// add hands it calls of a ring.
func (s *starter) add(r *ring, calls []call) {
	if !r.put(calls) {
		return // the starter has yet to look
	}
	r.begin(1) // the starter is at the ring until it has looked
	for at := uint64(uintptr(unsafe.Pointer(r.header))); ; {
		first := atomic.LoadUint64(&s.list)
		r.next = first
		if atomic.CompareAndSwapUint64(&s.list, first, at) {
			break
		}
	}
	if atomic.LoadUint32(&s.asleep) != 0 && atomic.SwapUint32(&s.asleep, 0) != 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.asleep)), futexWakePrivate, 1) // cannot fail
	}
}

// futexWakePrivate is FUTEX_WAKE_PRIVATE of linux/futex.h.
const futexWakePrivate = 1 | 128
