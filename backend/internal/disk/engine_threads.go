package disk

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threads is an engine of goroutines that make blocking calls. It is for machines without io_uring, and for calls that
// io_uring does not support.
type threads struct {
	share       *share
	fd          int
	limit       int // maximum number of workers
	jobs        chan call
	workers     sync.WaitGroup
	running     int // number of workers
	outstanding int

	// The outcomes, in a ring with room for all calls: id+1 and the result in one word, or zero.
	ring []atomic.Uint64
	head uint32
	tail atomic.Uint32

	notify  func()
	armed   atomic.Bool
	waiting atomic.Bool   // the owner is or was in wait
	wake    chan struct{} // ends wait
}

func newThreads(d *Disk, calls int, notify func()) (engine, error) {
	return threadsOn(&d.share, d.cfg.FD, d.cfg.Threads, calls, notify), nil
}

func threadsOn(s *share, fd, limit, calls int, notify func()) *threads {
	size := 1
	for size < calls {
		size *= 2
	}
	return &threads{
		share:  s,
		fd:     fd,
		limit:  limit,
		jobs:   make(chan call, calls),
		ring:   make([]atomic.Uint64, size),
		notify: notify,
		wake:   make(chan struct{}, 1),
	}
}

// start never blocks: the channel has room for all calls.
func (e *threads) start(c call) {
	e.outstanding++
	if e.running < min(e.outstanding, e.limit) {
		e.running++
		e.workers.Add(1)
		go e.work() // ends when close closes jobs
	}
	e.jobs <- c
}

// work makes calls until the engine is closed.
func (e *threads) work() {
	defer e.workers.Done()
	for c := range e.jobs {
		beyond := e.share.begin()
		result := c.run(e.fd)
		e.share.end(beyond)
		i := e.tail.Add(1) - 1
		e.ring[i&uint32(len(e.ring)-1)].Store(uint64(c.id+1)<<32 | uint64(uint32(result)))
		if e.armed.Load() && e.armed.CompareAndSwap(true, false) {
			e.notify()
		}
		if e.waiting.Load() {
			select {
			case e.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (e *threads) submit() {}

func (e *threads) reap(outs []outcome) int {
	n := 0
	for ; n < len(outs); n++ {
		place := &e.ring[e.head&uint32(len(e.ring)-1)]
		word := place.Load()
		if word == 0 {
			break
		}
		place.Store(0)
		e.head++
		e.outstanding--
		outs[n] = newOutcome(uint32(word>>32)-1, int32(uint32(word)))
	}
	return n
}

func (e *threads) arm() bool {
	return e.notify != nil && !e.armed.Swap(true)
}

func (e *threads) disarm() { e.armed.Store(false) }

// abort does nothing: calls in the channel are still made, and wait waits for them.
func (e *threads) abort() {}

func (e *threads) wait() error {
	e.waiting.Store(true)
	for e.ring[e.head&uint32(len(e.ring)-1)].Load() == 0 {
		<-e.wake
	}
	return nil
}

func (e *threads) release() {} // threads use the disk's descriptor

func (e *threads) close() error {
	close(e.jobs)
	e.workers.Wait()
	return nil
}

// maxTransfer limits one read or write so that its result fits.
const maxTransfer = 1 << 30

// run makes the call and returns the result that io_uring would return.
func (c *call) run(fd int) int32 {
	var err error
	n := 0
	buf := c.buf[:min(len(c.buf), maxTransfer)]
	switch c.kind {
	case callRead:
		n, err = unix.Pread(fd, buf, c.offset)
	case callWrite:
		n, err = pwrite(fd, buf, c.offset, c.flags)
	case callAllocate:
		err = unix.Fallocate(fd, c.flags, c.offset, c.length)
	case callSync:
		err = unix.Fdatasync(fd)
	case callDiscard:
		err = discard(fd, c.offset, c.length)
	}
	if err != nil {
		return -int32(err.(unix.Errno))
	}
	return int32(n)
}

// pwrite is pwritev2(2) for one buffer; unix.Pwritev2 would allocate.
func pwrite(fd int, b []byte, offset int64, flags uint32) (int, error) {
	if flags == 0 {
		return unix.Pwrite(fd, b, offset)
	}
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	n, _, errno := unix.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1,
		uintptr(offset), uintptr(uint64(offset)>>32), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// discard is ioctl(2) with BLKDISCARD on a block device.
func discard(fd int, offset, length int64) error {
	span := [2]uint64{uint64(offset), uint64(length)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKDISCARD, uintptr(unsafe.Pointer(&span)))
	if errno != 0 {
		return errno
	}
	return nil
}
