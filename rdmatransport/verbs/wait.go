//go:build verbs && cgo && linux

package verbs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A waiter blocks the owner of a completion queue until something happens: an epoll
// set with the completion channel, an eventfd for Wake, what Watch added and, on a
// device's first queue, the RDMA CM and the device's asynchronous events.
type waiter struct {
	epoll   int
	asleep  atomic.Bool
	woken   atomic.Bool
	control atomic.Bool // the RDMA CM or the device has something to say
	looked  atomic.Bool // all descriptors were looked at since the owner last asked
	told    atomic.Bool // the completion channel was readable

	mu       sync.Mutex // lets close wait for a wake that is writing
	event    int        // eventfd; -1 once closed, changed under mu
	controls [2]int     // descriptors that set control; 0: none
	channel  int        // the completion channel
	spare    bool       // the Go scheduler has processors to spare

	// Room for one call; one goroutine at a time waits.
	events [8]unix.EpollEvent
	limit  unix.Timespec
}

func (w *waiter) open(channel int) (err error) {
	w.event, w.channel = -1, channel
	w.spare = runtime.GOMAXPROCS(0) > runtime.NumCPU()
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err == nil {
		if err = w.add(w.event); err == nil {
			err = w.add(channel)
		}
	}
	if err != nil {
		w.close()
	}
	return err
}

func (w *waiter) add(fd int) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fd := range []int{w.epoll, w.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	w.epoll, w.event = -1, -1
}

// wake need not write if an earlier wake did. Either the owner sees woken after it
// announced its sleep, or wake sees it asleep.
func (w *waiter) wake() {
	if w.woken.Swap(true) || !w.asleep.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.event >= 0 {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(w.event), uintptr(unsafe.Pointer(&one)), 8)
	}
}

func (w *waiter) wait(d time.Duration) {
	w.asleep.Store(true)
	if !w.woken.Load() {
		w.block(d)
	}
	w.asleep.Store(false)
	w.woken.Store(false)
}

// shortSleep is how long a sleep keeps a processor of the Go scheduler's that can be
// spared. A sleep that gives it up costs more than the rest of a request: the
// scheduler's monitor wakes with us and looks every 20 µs whether it should take the
// processor from us, which wakes other threads. The scheduler ends a short sleep by a
// signal where it needs everybody to stop.
const shortSleep = 5 * time.Millisecond

// block sleeps until something is readable. A signal ends it early.
func (w *waiter) block(d time.Duration) {
	n, errno := 0, unix.Errno(0)
	if w.spare {
		n, errno = w.epollWait(shorter(d, shortSleep), unix.RawSyscall6)
	}
	if n == 0 && errno == 0 && (!w.spare || d < 0 || d > shortSleep) {
		if w.spare && d > 0 {
			d -= shortSleep
		}
		n, errno = w.epollWait(d, unix.Syscall6)
	}
	if errno == unix.ENOSYS { // before Linux 5.11
		n, errno = w.poll(d)
	}
	if errno == 0 {
		w.look(w.events[:n])
		w.looked.Store(n < len(w.events))
	}
}

// shorter is the lesser of two times, of which the first may be without limit.
func shorter(d, limit time.Duration) time.Duration {
	if d < 0 {
		return limit
	}
	return min(d, limit)
}

// epollWait is epoll_pwait2(2), whose time limit has nanoseconds.
func (w *waiter) epollWait(d time.Duration, call func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno)) (int, unix.Errno) {
	limit := &w.limit
	*limit = unix.NsecToTimespec(int64(d))
	if d < 0 {
		limit = nil
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.events)),
		uintptr(len(w.events)), uintptr(unsafe.Pointer(limit)), 0, 0)
	return int(n), errno
}

// poll is the same on older kernels, in two calls.
func (w *waiter) poll(d time.Duration) (int, unix.Errno) {
	fds := [1]unix.PollFd{{Fd: int32(w.epoll), Events: unix.POLLIN}}
	t := unix.NsecToTimespec(int64(d))
	limit := &t
	if d < 0 {
		limit = nil
	}
	_, err := unix.Ppoll(fds[:], limit, nil)
	if err == nil {
		var n int
		if n, err = unix.EpollWait(w.epoll, w.events[:], 0); err == nil {
			return n, 0
		}
	}
	errno, _ := err.(unix.Errno)
	return 0, errno
}

// look notes what is readable, and takes back what wake has written.
func (w *waiter) look(events []unix.EpollEvent) {
	for _, e := range events {
		switch int(e.Fd) {
		case w.event:
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		case w.channel:
			w.told.Store(true)
		case w.controls[0], w.controls[1]:
			w.control.Store(true)
		}
	}
}
