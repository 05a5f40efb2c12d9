//go:build verbs && cgo && linux

package verbs

import (
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

	mu       sync.Mutex // lets close wait for a wake that is writing
	event    int        // eventfd; -1 once closed, changed under mu
	controls [2]int     // descriptors that set control; 0: none
}

func (w *waiter) open(channel int) (err error) {
	w.event = -1
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

// block sleeps in a way that lets the runtime use the processor meanwhile. A signal
// ends it early.
func (w *waiter) block(d time.Duration) {
	fds := [1]unix.PollFd{{Fd: int32(w.epoll), Events: unix.POLLIN}}
	t := unix.NsecToTimespec(int64(d))
	limit := &t
	if d < 0 {
		limit = nil
	}
	if n, err := unix.Ppoll(fds[:], limit, nil); err == nil && n > 0 {
		w.look()
	}
}

// look notes what is readable, and takes back what wake has written.
func (w *waiter) look() {
	var events [8]unix.EpollEvent
	n, err := unix.EpollWait(w.epoll, events[:], 0)
	if err != nil {
		return
	}
	for _, e := range events[:n] {
		switch int(e.Fd) {
		case w.event:
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		case w.controls[0], w.controls[1]:
			w.control.Store(true)
		}
	}
}
