// Package backend defines the contract between a namespace and the store of its blocks. Package backendtest has the
// tests that every implementation must pass. The packages below this one store blocks in memory, files, block devices
// and Ceph images. The example program of package target is a target with its own [Store].
//
// # Shape
//
// A [Store] is a fixed-size array of bytes. Each shard that serves it opens its own [Queue], submits operations in
// slices and polls for their results. A queue never blocks and does not allocate for each request, so one goroutine can
// drive many queues beside its network. A queue belongs to one goroutine at a time.
//
// # Atomicity and order
//
// A queue does not order operations that are in flight together, with one exception: a Flush covers every write whose
// result was polled, on any queue of the store, before the Flush was submitted. No logical block is ever seen half
// written: reads and writes of the same block take effect one after the other, on whatever queues. Longer operations
// may interleave block by block.
//
// # Durability
//
// A completed write is in the store's volatile cache, if it has one, unless it requested force unit access. Flush makes
// all completed writes durable.
package backend

import (
	"errors"
	"fmt"
	"unsafe"
)

// Op is the kind of an operation.
type Op uint8

const (
	OpRead        Op = iota
	OpWrite          // with FUA: durable when done
	OpFlush          // makes all completed writes durable; Offset and Length are unused
	OpWriteZeroes    // Length bytes read as zero afterwards; with Deallocate storage may be freed
	OpDeallocate     // a hint: the range may be freed; it reads as zero or as before

	// OpCompareAndWrite writes Length bytes if the present bytes equal the expected ones, and otherwise fails with
	// [ErrMiscompare]. It is atomic. Stores with Info.Compare support it.
	OpCompareAndWrite

	// OpCopy copies Length bytes from From to Offset without passing them through the caller. Stores with Info.Copy
	// support it. It may still fail with [ErrUnsupported]; the caller then reads and writes instead.
	OpCopy
)

var opNames = [...]string{"read", "write", "flush", "write zeroes", "deallocate", "compare and write", "copy"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// A Request is one operation. The store owns Buf from Submit until the result has been polled.
type Request struct {
	Tag        uint64 // any value; returned once, in the result
	Op         Op
	FUA        bool
	Deallocate bool
	Offset     int64  // bytes; a multiple of the block size
	Length     int64  // bytes; for OpRead and OpWrite always len(Buf)
	From       int64  // OpCopy: the source; Offset is the destination
	Buf        []byte // of operations with data; aligned to Info.Alignment
}

// Parts returns the three parts, of Length bytes each, of the Buf of an OpCompareAndWrite: the expected content, the
// new content, and room for the present content. The parts are [Info.Stride] apart, and Buf is three strides long.
func (r *Request) Parts(i *Info) (expected, next, room []byte) {
	n, stride := r.Length, i.Stride(r.Length)
	return r.Buf[:n], r.Buf[stride:][:n], r.Buf[2*stride:][:n]
}

// A Result is the result of one request. Its error is nil, an unwrapped error of this package, or one that wraps an
// operating system error.
type Result struct {
	Tag uint64
	Err error
}

// Info describes a store. Sizes are in bytes.
type Info struct {
	Size       int64 // a multiple of BlockSize
	BlockSize  int   // logical block: 512 or 4096
	Alignment  int   // of buffers passed to Submit: 1 or a power of two up to 4096
	Optimal    int   // preferred write size and alignment; 0: unknown
	AtomicUnit int   // bytes written atomically across power failure; 0: one block; may be less than a block
	Volatile   bool  // has a write cache that Flush empties
	Remote     bool  // that cache survives a power failure of this machine
	ReadOnly   bool
	Deallocate bool // OpDeallocate frees storage
	Compare    bool // supports OpCompareAndWrite
	Copy       bool // supports OpCopy
}

// Stride is length rounded up to Alignment.
func (i *Info) Stride(length int64) int64 {
	a := int64(max(i.Alignment, 1))
	return (length + a - 1) &^ (a - 1)
}

// A Store holds the bytes of one namespace. Any goroutine may call its methods.
type Store interface {
	Info() Info
	// Allocated returns how many bytes of storage are in use, or Info.Size if the store cannot know.
	Allocated() (int64, error)
	// NewQueue opens a queue with at most depth requests in flight. A depth below one is an error. If the store is
	// closed, the error is [ErrClosed].
	//
	// After a Poll that found nothing, the store calls notify, from any goroutine, when another Poll may find results
	// or has work to do. notify must not block, and may be nil if the owner never sleeps. It is not called for results
	// that Submit produced: poll between submitting and sleeping.
	NewQueue(depth int, notify func()) (Queue, error)
	// Close releases the store. It fails while a queue is open.
	Close() error
}

// A Queue carries the operations of one shard.
type Queue interface {
	// Submit takes requests in order and returns how many it took. It takes fewer than given once depth requests are in
	// flight; a request is in flight until its result has been polled. Poll returns the results, errors included.
	// Submit copies the requests, so the slice may be reused at once.
	Submit(rs []Request) int
	// Poll stores finished results in rs and returns how many. It never blocks.
	Poll(rs []Result) int
	// Idle reports whether no request is in flight. If so, the store does nothing for the queue, and Close does not
	// wait, on any thread.
	Idle() bool
	// Close waits for requests that the store has begun and drops the others. After that no request touches its buffer
	// or the store. Results are dropped, and Submit takes no more requests.
	Close() error
}

// A Watchable queue lets its owner wait for results in its own system call, together with its sockets. Other queues
// call notify from another goroutine.
type Watchable interface {
	// Descriptor returns a descriptor that becomes readable when results may be available after Arm. After the first
	// call the descriptor reports the results of this queue's own requests; notify, if given, still reports what other
	// queues cause. The queue reads and closes the descriptor.
	Descriptor() int
	// Arm prepares for a wait. It returns false if there is work already, so that the owner must poll instead of
	// sleeping. Without requests in flight it clears the descriptor, which then stays unreadable until the next Arm.
	// The exception is a request whose result was polled before its event arrived: that event may be late.
	Arm() bool
}

// A ThreadBound queue may have to be used from one OS thread, from the first Submit to Close. A queue that wraps
// another one must return the inner queue's answer; otherwise results may never arrive.
type ThreadBound interface {
	ThreadBound() bool
}

// A Releaser is a queue that keeps the store's file or device open by itself, in addition to the store. If no request
// is in flight, Release closes it, so that nothing has it open after the store's Close. Do not submit requests after
// that. Call Release on the thread of a [ThreadBound] queue; it does not block. Close may be called on another thread.
type Releaser interface {
	Release()
}

// A MemoryUser is a queue that is faster with memory that was announced to it. UseMemory announces that buffers of
// requests will often lie in mem and that none of those crosses a multiple of part bytes from its start. Call it before
// the first Submit; mem must stay mapped until the queue is closed.
type MemoryUser interface {
	UseMemory(mem []byte, part int)
}

// A Leaser is a store from whose memory data can be sent, and into which it can be received, without a copy. Leases
// keep blocks atomic: while a shared lease is held no write to its blocks takes effect, and an exclusive lease excludes
// every other access. TryLease never blocks. A waiter that keeps trying is not starved, and one that gives up has
// nothing to undo. The unit of a lease may be larger than a block, so a holder must not need a second lease to make
// progress.
type Leaser interface {
	// Memory returns the memory of the whole store, to be registered once with each device. Its pages stay the same
	// unless Info.Deallocate is set: then deallocated blocks get different pages, so devices that pin pages must not
	// use it.
	Memory() []byte
	// TryLease tries to lease length bytes at offset and reports whether it succeeded. The caller must have checked the
	// range against Info.Size.
	TryLease(offset, length int64, exclusive bool) bool
	// Release ends a lease that was taken with the same arguments.
	Release(offset, length int64, exclusive bool)
}

// Check returns the error of an invalid request to this store: [ErrInvalid], [ErrOutOfRange], [ErrReadOnly] or nil.
func (i *Info) Check(r *Request) error {
	switch r.Op {
	case OpFlush:
		return nil
	case OpRead, OpWrite:
		if r.Length != int64(len(r.Buf)) || !i.aligned(r.Buf) {
			return ErrInvalid
		}
	case OpCompareAndWrite:
		if !i.Compare || r.Length < 0 || r.Length > int64(len(r.Buf)) || int64(len(r.Buf)) != 3*i.Stride(r.Length) || !i.aligned(r.Buf) {
			return ErrInvalid
		}
	case OpCopy:
		if !i.Copy {
			return ErrInvalid
		}
		if !InRange(r.From, r.Length, i.Size) {
			return ErrOutOfRange
		}
		if r.From&int64(i.BlockSize-1) != 0 {
			return ErrInvalid
		}
	case OpWriteZeroes, OpDeallocate:
	default:
		return ErrInvalid
	}
	if !InRange(r.Offset, r.Length, i.Size) {
		return ErrOutOfRange
	}
	if (r.Offset|r.Length)&int64(i.BlockSize-1) != 0 {
		return ErrInvalid
	}
	if i.ReadOnly && r.Op != OpRead {
		return ErrReadOnly
	}
	return nil
}

func (i *Info) aligned(b []byte) bool {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return i.Alignment <= 1 || len(b) == 0 || address&uintptr(i.Alignment-1) == 0
}

// InRange reports whether length bytes at offset lie within size bytes. It does not overflow for any arguments.
func InRange(offset, length, size int64) bool {
	return offset >= 0 && length >= 0 && length <= size && offset <= size-length
}

// Errors of results. ErrOutOfRange, ErrReadOnly, ErrNoSpace, ErrClosed, ErrFenced and ErrMiscompare have their own NVMe
// status codes. All other errors are reported as media errors: a read as an unrecovered read error, any other operation
// as a write fault.
var (
	ErrInvalid    = errors.New("malformed request") // the caller's mistake
	ErrOutOfRange = errors.New("beyond the end of the store")
	ErrReadOnly   = errors.New("store is read-only")
	ErrNoSpace    = errors.New("no space left for the store")
	ErrFailed     = errors.New("store failed earlier and takes no more writes")
	ErrClosed     = errors.New("store is closed")

	// ErrFenced says that this machine may no longer use the store, because another one may be using it. It is an error
	// of the path, not of the data.
	ErrFenced = errors.New("this machine may no longer use the store, because another one may be using it")

	ErrMiscompare  = errors.New("blocks differ from those given")       // OpCompareAndWrite
	ErrUnsupported = errors.New("operation not supported by the store") // OpCopy
)
