package rbd

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A header is the start of a ring's memory, with the layout of struct nr_ring in C.
type header struct {
	tail    uint64
	running int64 // unfinished calls and visits of the starter; the memory is in use until it is 0
	mask    uint64
	args    uint64
	armed   uint32
	event   int32
	_       [3]uint64

	todo   uint64
	begun  uint64 // number of calls ever put there
	taken  uint64 // number of calls begun; written by C
	next   uint64
	listed uint32
	_      [7]uint32
}

// argSize is the size of struct nr_arg.
const argSize = 32

// A ring receives the results of a queue's calls. It is in memory outside the Go heap: threads of librbd write to it.
type ring struct {
	*header
	free  func() error
	cells []uint64 // zero, or an identifier plus one in the upper half and the result in the lower half
	calls []call   // on their way to a starter
	head  uint64
}

// An outcome is the result of a call as the library returns it, negative for an errno.
type outcome struct {
	id     uint32
	result int32
}

// A source allocates zeroed memory and returns a function that frees it.
type source func(n int) (mem []byte, free func() error, err error)

// mapped allocates memory outside the Go heap.
func mapped(n int) ([]byte, func() error, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("map memory: %w", err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}

// newRing returns a ring for calls with identifiers below calls.
func newRing(calls int, memory source) (*ring, error) {
	n := 1 << bits.Len(uint(calls-1))
	cells := int(unsafe.Sizeof(header{}))
	args := cells + 8*n
	todo := args + argSize*calls
	mem, free, err := memory(todo + n*int(unsafe.Sizeof(call{})))
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = free()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	r := &ring{header: (*header)(unsafe.Pointer(&mem[0])), free: free, cells: unsafe.Slice((*uint64)(unsafe.Pointer(&mem[cells])), n)}
	r.mask, r.event = uint64(n-1), int32(event)
	r.args = uint64(uintptr(unsafe.Pointer(&mem[args])))
	r.calls = unsafe.Slice((*call)(unsafe.Pointer(&mem[todo])), n)
	r.todo = uint64(uintptr(unsafe.Pointer(&mem[todo])))
	return r, nil
}

// begin counts calls that are about to start.
func (r *ring) begin(calls int) { atomic.AddInt64(&r.running, int64(calls)) }

// put stores calls for the starter, and reports whether the ring must be added to the starter's list. There is always
// room, since the identifiers of outstanding calls differ.
func (r *ring) put(calls []call) (list bool) {
	at := r.begun
	for i := range calls {
		r.calls[at&r.mask] = calls[i]
		at++
	}
	atomic.StoreUint64(&r.begun, at)
	return atomic.SwapUint32(&r.listed, 1) == 0
}

// ready reports whether reap would find something.
func (r *ring) ready() bool { return atomic.LoadUint64(&r.cells[r.head&r.mask]) != 0 }

// reap stores outcomes and returns how many.
func (r *ring) reap(out []outcome) int {
	for n := range out {
		cell := &r.cells[r.head&r.mask]
		v := atomic.LoadUint64(cell)
		if v == 0 {
			return n
		}
		atomic.StoreUint64(cell, 0)
		r.head++
		out[n] = outcome{id: uint32(v>>32) - 1, result: int32(uint32(v))}
	}
	return len(out)
}

// arm makes the next end of a call write to the eventfd. Calls that ended before do not: see ready.
func (r *ring) arm() { atomic.StoreUint32(&r.armed, 1) }

func (r *ring) disarm() {
	if atomic.LoadUint32(&r.armed) != 0 {
		atomic.StoreUint32(&r.armed, 0)
	}
}

// clear makes the eventfd unreadable until it is written to again.
func (r *ring) clear() {
	var count [8]byte
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(r.event), uintptr(unsafe.Pointer(&count)), 8) // EAGAIN: it already was
}

// wait sleeps until a call may have ended, at most for the given milliseconds; negative means no limit.
func (r *ring) wait(milliseconds int) {
	r.clear()
	r.arm()
	if r.ready() {
		return
	}
	fds := []unix.PollFd{{Fd: r.event, Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, milliseconds)
}

// close frees the memory once no thread uses it. No call may be outstanding.
func (r *ring) close() error {
	for atomic.LoadInt64(&r.running) > 0 {
		runtime.Gosched() // the thread has already put its outcome into the ring
	}
	if err := unix.Close(int(r.event)); err != nil {
		return err
	}
	return r.free()
}
