package udp

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiter blocks a shard in one epoll until something happens.
type waiter struct {
	epoll  int
	asleep atomic.Bool
	woken  atomic.Bool
	coarse bool // the kernel has no epoll_pwait2 (5.11), or hides it

	mu    sync.Mutex // lets close wait for a Wake that is writing
	event int        // eventfd; -1 once closed, changed under mu
}

func (w *waiter) open(recv int) (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	if err := w.add(w.event); err != nil {
		return err
	}
	return w.add(recv)
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

func (w *waiter) block(d time.Duration) {
	var events [4]unix.EpollEvent
	n := w.sleep(&events, d)
	for _, e := range events[:n] {
		if int(e.Fd) == w.event {
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		}
	}
}

// timespec is struct __kernel_timespec, the same on all architectures.
type timespec struct{ sec, nsec int64 }

// sleep blocks through unix.Syscall, so that the runtime may use the processor
// meanwhile, and returns the number of events. A signal ends it early.
func (w *waiter) sleep(events *[4]unix.EpollEvent, d time.Duration) int {
	if !w.coarse {
		t := timespec{int64(d / time.Second), int64(d % time.Second)}
		limit := &t
		if d < 0 {
			limit = nil
		}
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll), uintptr(unsafe.Pointer(events)), uintptr(len(events)), uintptr(unsafe.Pointer(limit)), 0, 0)
		if errno == 0 {
			return int(n)
		}
		if errno != unix.ENOSYS && errno != unix.EPERM {
			return 0
		}
		w.coarse = true
	}
	ms := -1
	if d >= 0 {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	n, err := unix.EpollWait(w.epoll, events[:], ms)
	if err != nil {
		return 0
	}
	return n
}
