package disk

import "golang.org/x/sys/unix"

// An engine makes system calls for one queue without keeping it waiting. One
// goroutine at a time calls its methods.
type engine interface {
	// start takes a call. The queue has at most as many outstanding as the
	// engine was made for.
	start(c call)
	// submit sees to it that what was started is carried out.
	submit()
	// reap stores outcomes and returns how many. It never blocks.
	reap(outs []outcome) int
	// arm has notify called once something can be reaped. It reports
	// whether that was not so before: then reap must be tried once more.
	arm() bool
	// disarm takes that back.
	disarm()
	// abort gives up what the kernel has not begun: its outcome is ECANCELED.
	abort()
	// wait blocks until something can be reaped. Something must be outstanding.
	wait() error
	// release gives the file up, when nothing is outstanding and nothing is started any more. It never blocks.
	release()
	// close frees the engine, when nothing is outstanding; notify is not called
	// afterwards.
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
	id     uint32 // comes back in the outcome
	flags  uint32
	buf    []byte // callRead, callWrite
	offset int64
	length int64 // callAllocate, callDiscard
}

// An outcome is the end of a call: bytes transferred, or an error number.
type outcome struct {
	id    uint32
	n     int32
	errno unix.Errno
}

// newOutcome splits a result as the kernel gives it.
func newOutcome(id uint32, result int32) outcome {
	if result < 0 {
		return outcome{id: id, errno: unix.Errno(-result)}
	}
	return outcome{id: id, n: result}
}
