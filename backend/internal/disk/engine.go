package disk

import "golang.org/x/sys/unix"

// An engine makes system calls for one queue without blocking it. Its methods are called by one goroutine at a time.
type engine interface {
	// start accepts a call. The queue has no more calls outstanding than the engine was made for.
	start(c call)
	// submit makes the started calls begin.
	submit()
	// reap stores outcomes and returns how many. It never blocks.
	reap(outs []outcome) int
	// arm requests a call of notify once an outcome is available. It returns false if it already was armed, and true
	// otherwise: then try reap once more.
	arm() bool
	// disarm undoes arm.
	disarm()
	// abort cancels the calls that the kernel has not begun: their outcome is ECANCELED.
	abort()
	// wait blocks until an outcome is available. A call must be outstanding.
	wait() error
	// release closes the engine's own reference to the file. No call may be outstanding or be started any more. It
	// never blocks.
	release()
	// close frees the engine when no call is outstanding. notify is not called afterwards.
	close() error
}

type callKind uint8

const (
	callRead     callKind = iota
	callWrite             // flags of pwritev2(2)
	callAllocate          // flags of fallocate(2)
	callSync              // fdatasync(2)
	callDiscard           // BLKDISCARD of ioctl(2)
)

// A call is one system call.
type call struct {
	kind   callKind
	id     uint32 // returned in the outcome
	flags  uint32
	buf    []byte // callRead, callWrite
	offset int64
	length int64 // callAllocate, callDiscard
}

// An outcome is the result of a call: bytes transferred, or an error number.
type outcome struct {
	id    uint32
	n     int32
	errno unix.Errno
}

// newOutcome splits a result in the kernel's format.
func newOutcome(id uint32, result int32) outcome {
	if result < 0 {
		return outcome{id: id, errno: unix.Errno(-result)}
	}
	return outcome{id: id, n: result}
}
