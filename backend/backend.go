// Package backend is the contract between a namespace and what stores its blocks. Package
// backendtest has the tests that every implementation passes. The packages below this one store
// blocks in memory, files, block devices and images of Ceph; the program in the examples of package
// target is a target with a [Store] of its own.
//
// # Shape
//
// A [Store] is a fixed-size array of bytes. Each shard that serves it opens a
// [Queue] of its own, submits operations in slices and polls for their results;
// nothing in a queue blocks, nor allocates for each request, so that one goroutine
// can drive many of them beside its network. A queue belongs to one goroutine at a
// time.
//
// # Atomicity and order
//
// A queue gives no order between operations that are in flight together, except
// that a Flush covers every write whose result was polled, on any queue of the
// store, before the Flush was submitted. One logical block is never seen half
// written: reads and writes of the same block, on whatever queues, take effect
// one after the other. Longer operations may interleave, block by block.
//
// # Durability
//
// A completed write is in the store's volatile cache, if it has one, unless it
// asked for force unit access; Flush makes all of them durable.
package backend

import (
	"errors"
	"fmt"
	"unsafe"
)

// Op is what an operation does.
type Op uint8

const (
	OpRead        Op = iota
	OpWrite          // with FUA: durable when done
	OpFlush          // all completed writes become durable; Offset and Length unused
	OpWriteZeroes    // Length bytes read as zero afterwards; with Deallocate storage may be freed
	OpDeallocate     // a hint: the range may be freed; it reads as zero or as before

	// OpCompareAndWrite writes Length bytes if the present ones are as expected, and fails with
	// [ErrMiscompare] if not, atomically. Stores with Info.Compare have it.
	OpCompareAndWrite

	// OpCopy writes the Length bytes at From to Offset, without passing them through
	// the caller. Stores with Info.Copy have it, and may still fail with
	// [ErrUnsupported]: then the caller reads and writes instead.
	OpCopy
)

var opNames = [...]string{"read", "write", "flush", "write zeroes", "deallocate", "compare and write", "copy"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// A Request is one operation. The store owns Buf from Submit until the result
// has been polled.
type Request struct {
	Tag        uint64 // returned in the result, once; any value
	Op         Op
	FUA        bool
	Deallocate bool
	Offset     int64  // bytes; a multiple of the block size
	Length     int64  // bytes; for OpRead and OpWrite always len(Buf)
	From       int64  // OpCopy: the source, as Offset is the destination
	Buf        []byte // of those that have data; aligned to Info.Alignment
}

// Parts cuts the Buf of an OpCompareAndWrite into its three parts of Length bytes each: the
// expected content, the new content, and room for the present content. They lie [Info.Stride]
// apart, and Buf is three times as long as that.
func (r *Request) Parts(i *Info) (expected, next, room []byte) {
	n, stride := r.Length, i.Stride(r.Length)
	return r.Buf[:n], r.Buf[stride:][:n], r.Buf[2*stride:][:n]
}

// A Result is the outcome of one request: nil, one of the errors of this package as
// it stands, or another that wraps the operating system's.
type Result struct {
	Tag uint64
	Err error
}

// Info describes a store. Sizes are in bytes.
type Info struct {
	Size       int64 // a multiple of BlockSize
	BlockSize  int   // logical block: 512 or 4096
	Alignment  int   // of buffers handed to Submit: 1 or a power of two up to 4096
	Optimal    int   // preferred write size and alignment; 0: unknown
	AtomicUnit int   // bytes written atomically across power failure; 0: one block; may be less
	Volatile   bool  // has a write cache that Flush empties
	Remote     bool  // that cache is not lost with the power of this machine
	ReadOnly   bool
	Deallocate bool // OpDeallocate frees storage
	Compare    bool // has OpCompareAndWrite
	Copy       bool // has OpCopy
}

// Stride is length rounded up to Alignment.
func (i *Info) Stride(length int64) int64 {
	a := int64(max(i.Alignment, 1))
	return (length + a - 1) &^ (a - 1)
}

// A Store holds the bytes of one namespace. Its methods may be called from any
// goroutine.
type Store interface {
	Info() Info
	// Allocated is how many bytes of storage are in use: Info.Size where the
	// store cannot know.
	Allocated() (int64, error)
	// NewQueue opens a queue that has at most depth requests in flight. A depth below one is
	// an error; of a store that is closed it is [ErrClosed]. After a
	// Poll that found nothing, notify is called, from any goroutine, when another
	// Poll may find something or has work to do; it must not block. It is not
	// called for results that Submit left behind: poll between submitting and
	// sleeping. An owner that never sleeps may pass nil.
	NewQueue(depth int, notify func()) (Queue, error)
	// Close releases the store. It fails while a queue is open.
	Close() error
}

// A Queue carries one shard's operations.
type Queue interface {
	// Submit takes requests in order and returns how many it took: fewer than
	// given once depth are in flight, which they are until their results have
	// been polled. Results, errors included, come from Poll. The requests are
	// copied, so that the slice may be reused at once.
	Submit(rs []Request) int
	// Poll stores finished results and returns how many. It never blocks.
	Poll(rs []Result) int
	// Idle reports whether nothing is in flight. Then the store does nothing for the queue, and
	// Close does not wait, on any thread.
	Idle() bool
	// Close waits for what the store has begun and drops what it has not; no
	// request touches its buffer or the store afterwards. Results are dropped, and
	// Submit takes nothing any more.
	Close() error
}

// A Watchable queue lets its owner wait for it in a system call of its own, together with its
// sockets. Without it notify also works, but by way of another goroutine.
type Watchable interface {
	// Descriptor is readable once results may be available after Arm. The first
	// call makes the descriptor responsible for the results of this queue's own
	// requests; notify, where given, still reports what other queues cause. The
	// queue reads and closes the descriptor.
	Descriptor() int
	// Arm prepares for a wait. It reports false when the owner must not sleep
	// but poll, since there is something to do already. Without requests in flight
	// it clears the descriptor, which then stays so until Arm is called again, but for
	// a request whose end was polled for before its event came: that may be late.
	Arm() bool
}

// A ThreadBound queue may have to be used from one OS thread, from the first Submit to Close. A
// queue that wraps another one has to return what that returns; otherwise results may never arrive.
type ThreadBound interface {
	ThreadBound() bool
}

// A Releaser is a queue that keeps the store's file or device open by itself, beside the store. Release closes
// it as far as no request is in flight, so that nothing has it open after the store's Close. No request may be
// submitted afterwards. It is called from the thread of a [ThreadBound] queue and does not block; Close may be
// called from another thread.
type Releaser interface {
	Release()
}

// A MemoryUser is a queue that works faster on memory that was announced to it. UseMemory, called
// before the first Submit, announces that buffers of requests will often lie in mem, which stays
// mapped until the queue is closed, and that none of those crosses a multiple of part bytes from
// its start.
type MemoryUser interface {
	UseMemory(mem []byte, part int)
}

// A Leaser is a store whose memory can be sent from and received into without a
// copy. A lease keeps the block-atomicity promise: while a shared lease is held
// no write to its blocks takes effect, and an exclusive one excludes every other
// access. TryLease never blocks; a waiter that keeps trying is not starved, and
// one that gives up has nothing to undo. Leases are kept for parts of the store
// coarser than a block, so the holder of one must not need another to proceed.
type Leaser interface {
	// Memory is the whole store, to be registered once with each device. Its pages
	// stay the same unless Info.Deallocate: then freed blocks get other ones, and a
	// device that pins pages must not have it.
	Memory() []byte
	// TryLease leases length bytes at offset, a range that the caller checked
	// against Info.Size, and reports whether it got them.
	TryLease(offset, length int64, exclusive bool) bool
	// Release ends a lease taken with the same arguments.
	Release(offset, length int64, exclusive bool)
}

// Check reports what is wrong with a request for this store: [ErrInvalid],
// [ErrOutOfRange], [ErrReadOnly] or nil.
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

// InRange reports whether length bytes at offset lie within size bytes. No
// value of its arguments overflows.
func InRange(offset, length, size int64) bool {
	return offset >= 0 && length >= 0 && length <= size && offset <= size-length
}

// Errors of results. ErrOutOfRange, ErrReadOnly, ErrNoSpace, ErrClosed, ErrFenced and ErrMiscompare
// have NVMe status codes of their own. All others, including the others of this package, are
// reported as media errors: a read as an unrecovered read error, any other operation as a write
// fault.
var (
	ErrInvalid    = errors.New("malformed request") // the caller's mistake
	ErrOutOfRange = errors.New("beyond the end of the store")
	ErrReadOnly   = errors.New("store is read-only")
	ErrNoSpace    = errors.New("no space left for the store")
	ErrFailed     = errors.New("store failed earlier and takes no more writes")
	ErrClosed     = errors.New("store is closed")

	// ErrFenced says that this machine may not use the store any more: another one may have it. It
	// is an error of the path, not of the data.
	ErrFenced = errors.New("this machine has lost its right to the store")

	ErrMiscompare  = errors.New("blocks differ from those given") // OpCompareAndWrite
	ErrUnsupported = errors.New("store cannot do that")           // OpCopy
)
