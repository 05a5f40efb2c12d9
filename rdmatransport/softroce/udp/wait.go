package udp

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiter blocks a shard until something happens. Everything but the receive socket
// is in an epoll; the socket has a waiter only while the shard sleeps, since the
// kernel would call it for each datagram, 0.2 µs of the sender's time.
type waiter struct {
	recv   int
	epoll  int
	asleep atomic.Bool
	woken  atomic.Bool

	mu    sync.Mutex // lets close wait for a Wake that is writing
	event int        // eventfd; -1 once closed, changed under mu
}

func (w *waiter) open(recv int) (err error) {
	w.recv = recv
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return w.add(w.event)
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

func (p *port) Watch(fd int) error { return p.wait.add(fd) }

// Wake need not write if an earlier Wake did. Either the shard sees woken after
// it announced its sleep, or Wake sees it asleep.
func (p *port) Wake() {
	w := &p.wait
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

func (p *port) Wait(d time.Duration) {
	w := &p.wait
	w.asleep.Store(true)
	if !w.woken.Load() {
		w.block(d)
	}
	w.asleep.Store(false)
	w.woken.Store(false)
}

// block sleeps in a way that lets the runtime use the processor meanwhile. A
// signal ends it early.
func (w *waiter) block(d time.Duration) {
	fds := [2]unix.PollFd{{Fd: int32(w.recv), Events: unix.POLLIN}, {Fd: int32(w.epoll), Events: unix.POLLIN}}
	t := unix.NsecToTimespec(int64(d))
	limit := &t
	if d < 0 {
		limit = nil
	}
	n, err := unix.Ppoll(fds[:], limit, nil)
	if err == nil && n > 0 && fds[1].Revents != 0 {
		w.clear()
	}
}

// clear takes back what Wake has written.
func (w *waiter) clear() {
	var events [4]unix.EpollEvent
	n, err := unix.EpollWait(w.epoll, events[:], 0)
	if err != nil {
		return
	}
	for _, e := range events[:n] {
		if int(e.Fd) == w.event {
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		}
	}
}
