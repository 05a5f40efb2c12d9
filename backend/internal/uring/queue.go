package uring

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// prepare returns the next free submission queue entry, zeroed, or nil if all entries wait for Submit.
func (r *Ring) prepare(op uint8, userData uint64) *sqe {
	if r.tail-atomic.LoadUint32(r.sqHead) > r.sqMask {
		return nil
	}
	e := &r.sqes[r.tail&r.sqMask]
	*e = sqe{opcode: op, flags: sqeFixedFile, userData: userData} // fd 0: the registered file
	r.tail++
	return e
}

// Read prepares a read into b at the file's offset. Like all methods that prepare an operation, it returns false if
// there is no free entry before the next Submit.
func (r *Ring) Read(b []byte, offset int64, userData uint64) bool {
	e := r.prepare(opRead, userData)
	if e == nil {
		return false
	}
	r.setBuffer(e, opReadFixed, b, offset)
	return true
}

// Write prepares a write of b; flags are those of pwritev2(2).
func (r *Ring) Write(b []byte, offset int64, flags uint32, userData uint64) bool {
	e := r.prepare(opWrite, userData)
	if e == nil {
		return false
	}
	r.setBuffer(e, opWriteFixed, b, offset)
	e.opFlags = flags
	return true
}

// setBuffer sets the operation's buffer, and selects the fixed operation if b is in registered memory.
func (r *Ring) setBuffer(e *sqe, fixed uint8, b []byte, offset int64) {
	if part, ok := r.fixed(b); ok {
		e.opcode, e.bufIndex = fixed, part
	}
	e.addr = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	e.length = uint32(min(len(b), 1<<30)) // the caller sees a short transfer
	e.off = uint64(offset)
}

// Fallocate prepares a call of fallocate(2).
func (r *Ring) Fallocate(mode uint32, offset, length int64, userData uint64) bool {
	e := r.prepare(opFallocate, userData)
	if e == nil {
		return false
	}
	e.off, e.addr, e.length = uint64(offset), uint64(length), mode
	return true
}

// Fdatasync prepares a call of fdatasync(2).
func (r *Ring) Fdatasync(userData uint64) bool {
	e := r.prepare(opFsync, userData)
	if e == nil {
		return false
	}
	e.opFlags = fsyncDatasync
	return true
}

// Nop prepares an operation that does nothing.
func (r *Ring) Nop(userData uint64) bool {
	e := r.prepare(opNop, userData)
	if e == nil {
		return false
	}
	e.flags = 0
	return true
}

// pending returns how many prepared entries the kernel has not taken.
func (r *Ring) pending() uint32 { return r.tail - atomic.LoadUint32(r.sqHead) }

// Submit passes the prepared operations to the kernel. A kernel short of memory takes fewer; the rest is passed by the
// next Submit. After an error the kernel takes none: see Withdraw.
func (r *Ring) Submit() error {
	n := r.pending()
	if n == 0 {
		return nil
	}
	if r.disabled {
		// From now on the calling thread is the issuer.
		if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerEnableRings, 0, 0, 0, 0); errno != 0 {
			return errno
		}
		r.disabled = false
	}
	atomic.StoreUint32(r.sqTail, r.tail)
	var flags uintptr
	if r.deferred {
		flags = enterGetevents // also processes completions during the call
	}
	for n > 0 {
		// RawSyscall: the call does not block, since the kernel passes blocking operations to its workers. Syscall
		// would wake the Go scheduler's monitor each time.
		_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), 0, flags, 0, 0)
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.EBUSY:
			return nil
		default:
			return errno
		}
		left := r.pending()
		if left == n && errno == 0 {
			return nil
		}
		n = left
	}
	return nil
}

// Withdraw removes the entries that the kernel has not taken, oldest first, and calls f with the user data of each.
func (r *Ring) Withdraw(f func(userData uint64)) {
	head := atomic.LoadUint32(r.sqHead)
	tail := r.tail
	r.tail = head
	atomic.StoreUint32(r.sqTail, head)
	for ; head != tail; head++ {
		f(r.sqes[head&r.sqMask].userData)
	}
}

// Reap stores completions and returns how many. It does not wait.
func (r *Ring) Reap(cs []Completion) int {
	n := r.take(cs)
	if n == len(cs) || atomic.LoadUint32(r.sqFlags)&(sqTaskrun|sqCQOverflow) == 0 {
		return n
	}
	unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 0, enterGetevents, 0, 0)
	return n + r.take(cs[n:])
}

func (r *Ring) take(cs []Completion) int {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	n := 0
	for ; head != tail && n < len(cs); head++ {
		e := &r.cqes[head&r.cqMask]
		cs[n] = Completion{UserData: e.userData, Result: e.res}
		n++
	}
	if n > 0 {
		atomic.StoreUint32(r.cqHead, head)
	}
	return n
}

// ready reports whether Reap would find something.
func (r *Ring) ready() bool {
	return *r.cqHead != atomic.LoadUint32(r.cqTail) || atomic.LoadUint32(r.sqFlags)&(sqTaskrun|sqCQOverflow) != 0
}

// Wait blocks until there is a completion. An operation must be in flight. With [Config.LockedThread] it fails with
// EEXIST on any other thread, since completions are made only on the ring's thread.
func (r *Ring) Wait() error {
	for *r.cqHead == atomic.LoadUint32(r.cqTail) {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, enterGetevents, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
	}
	return nil
}

// Event returns an eventfd that the kernel increments for each completion between Arm and Disarm. The ring closes it.
func (r *Ring) Event() int { return r.event }

// ClearEvent makes the eventfd unreadable until the kernel increments it again.
func (r *Ring) ClearEvent() {
	var count [8]byte
	unix.RawSyscall(unix.SYS_READ, uintptr(r.event), uintptr(unsafe.Pointer(&count)), 8) // EAGAIN: it already was
}

// Arm enables the eventfd. It returns false if there are completions already, which the eventfd may not report.
func (r *Ring) Arm() bool {
	atomic.StoreUint32(r.cqFlags, 0)
	return !r.ready()
}

// Disarm disables the eventfd; its count remains.
func (r *Ring) Disarm() { atomic.StoreUint32(r.cqFlags, cqEventfdDisabled) }
