package rbd

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A starter is a C thread that begins calls, with the layout of struct nr_starter in C. Rings with new calls are in its
// list, which it takes as a whole.
type starter struct {
	list   uint64
	asleep uint32
	over   uint32
	_      uint64 // the thread; used by C
}

// add passes calls of a ring to the starter.
func (s *starter) add(r *ring, calls []call) {
	if !r.put(calls) {
		return // the starter has not looked at the ring yet
	}
	r.begin(1) // the starter uses the ring until it has looked at it
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
