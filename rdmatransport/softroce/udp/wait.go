package udp

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiter blocks a shard in one epoll until something happens.
type waiter struct {
	epoll, event int // descriptors; event is an eventfd
	asleep       atomic.Bool
	woken        atomic.Bool
	coarse       bool // the kernel has no epoll_pwait2
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
	for _, fd := range []int{w.epoll, w.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (p *port) Watch(fd int) error { return p.wait.add(fd) }

// Wake costs an atomic store while the shard is awake. Either the shard sees
// woken after it announced its sleep, or Wake sees it asleep.
func (p *port) Wake() {
	p.wait.woken.Store(true)
	if p.wait.asleep.Load() {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(p.wait.event), uintptr(unsafe.Pointer(&one)), 8)
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
	n, err := w.epollWait(events[:], d)
	if err != nil {
		return // EINTR: an early return is allowed
	}
	for _, e := range events[:max(n, 0)] {
		if int(e.Fd) == w.event {
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		}
	}
}

// epollWait blocks through unix.Syscall, so that the runtime may use the
// processor meanwhile.
func (w *waiter) epollWait(events []unix.EpollEvent, d time.Duration) (int, error) {
	if !w.coarse {
		var ts *unix.Timespec
		if d >= 0 {
			t := unix.NsecToTimespec(int64(d))
			ts = &t
		}
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(ts)), 0, 0)
		if errno != unix.ENOSYS {
			if errno != 0 {
				return 0, errno
			}
			return int(n), nil
		}
		w.coarse = true
	}
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	return unix.EpollWait(w.epoll, events, ms)
}
