// Package waiter blocks the owner of a completion queue until something happens.
//
// A sleep goes through the Go scheduler's own poller, because the alternatives cost more. A thread that blocks in a
// system call gives up its processor (P), for which the scheduler's monitor wakes with each sleep and checks every 20
// µs whether a processor is held too long. A thread that blocks and keeps its processor is interrupted every 10 ms.
// Either way a wake-up takes several times as much processor time. For the same reason the package uses raw system
// calls, which the scheduler does not notice. Short sleeps use them too, since the poller counts in milliseconds.
package waiter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Waiter lets one owner sleep; Wake may be called from any goroutine. It must be opened before use.
type Waiter struct {
	// Guesses means that the owner always checks what most likely ends a sleep, so that Wait need not find out the
	// cause, which saves a system call. It cannot be combined with Quiet, and must not be changed during a Wait.
	Guesses bool

	asleep atomic.Bool
	woken  atomic.Bool

	epoll  int      // the descriptors that end a sleep
	poller *os.File // the same descriptor in the scheduler's poller; owns it
	conn   syscall.RawConn
	look   func(epoll uintptr) bool // method value, created once
	// Deadline set in the poller; zero: none.
	deadline time.Time

	quiet int  // descriptor given to Quiet; 0: none
	armed bool // quiet is being watched
	fresh bool // the scheduler's poller has not called readable during this sleep
	blind bool // the cause of the end was not determined
	spare bool // the scheduler has a spare processor for a nap

	// Buffer for one call; only one goroutine waits at a time.
	events [Most]unix.EpollEvent
	ready  int
	limit  unix.Timespec

	mu    sync.Mutex // lets Close wait for a Wake that is writing
	event int        // eventfd; -1 once closed, changed under mu
}

// Most is the maximum number of descriptors that one Wait returns.
const Most = 8

// Open makes a waiter usable.
func (w *Waiter) Open() (err error) {
	w.event = -1
	w.spare = runtime.GOMAXPROCS(0) > runtime.NumCPU()
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err = unix.SetNonblock(w.epoll, true); err == nil { // required for the scheduler's poller
		w.poller = os.NewFile(uintptr(w.epoll), "epoll")
		if err = w.poller.SetDeadline(time.Time{}); err == nil {
			w.conn, err = w.poller.SyscallConn()
		}
	}
	if err == nil {
		w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	}
	if err == nil {
		err = w.Add(w.event)
	}
	if err != nil {
		w.Close()
		return fmt.Errorf("epoll in the scheduler's poller: %w", err)
	}
	w.look = w.readable
	return nil
}

// Add makes a readable descriptor end all sleeps.
func (w *Waiter) Add(fd int) error { return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) }

// Watch makes a descriptor end a sleep once each time that it becomes readable. Unread data ends no further sleep.
func (w *Waiter) Watch(fd int) error {
	return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLET)
}

// Quiet is like Add, for a descriptor that is often readable while its owner is awake. The kernel then does not
// notify the poller each time.
func (w *Waiter) Quiet(fd int) error {
	w.quiet = fd
	return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLONESHOT)
}

// Forget undoes Quiet, when the descriptor has moved to another owner. It must not be called during a Wait.
func (w *Waiter) Forget() {
	if w.quiet != 0 {
		_ = w.control(unix.EPOLL_CTL_DEL, w.quiet, 0)
		w.quiet, w.armed = 0, false
	}
}

func (w *Waiter) control(op, fd int, what uint32) error {
	return unix.EpollCtl(w.epoll, op, fd, &unix.EpollEvent{Events: what, Fd: int32(fd)}) // a raw system call
}

// Close frees the resources. It must not be called during a Wait.
func (w *Waiter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.epoll <= 0: // never opened, or closed before
		return
	case w.poller != nil:
		w.poller.Close()
	default:
		unix.Close(w.epoll)
	}
	if w.event >= 0 {
		unix.Close(w.event)
	}
	w.poller, w.epoll, w.event = nil, -1, -1
}

// Asleep reports whether the owner is in Wait, or about to enter it.
func (w *Waiter) Asleep() bool { return w.asleep.Load() }

// Wake ends the current or else the next sleep. It need not write if an earlier call did: either the owner sees woken
// after announcing its sleep, or Wake sees that it is asleep.
func (w *Waiter) Wake() {
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

// coarse is the minimum sleep for the scheduler's poller, which counts in milliseconds.
const coarse = 2 * time.Millisecond

// Wait sleeps for d (negative: no limit) or until something happens. It returns the readable descriptors: all of them
// if they are fewer than [Most], otherwise perhaps not all. They are valid until the next Wait. If blind is true, as
// with Guesses, there is a readable descriptor that was not returned; the next Wait returns it without sleeping if it
// is still readable. Wait may return early for no reason.
func (w *Waiter) Wait(d time.Duration) (events []unix.EpollEvent, blind bool) {
	w.ready, w.blind = 0, false
	w.asleep.Store(true)
	if !w.woken.Load() {
		if d >= 0 && d < coarse {
			w.nap(d)
		} else {
			w.sleep(d)
		}
	}
	w.asleep.Store(false)
	w.woken.Store(false)
	w.disarm()
	return w.events[:w.ready], w.blind
}

// sleep waits in the scheduler's poller.
func (w *Waiter) sleep(d time.Duration) {
	w.limitTo(d)
	w.fresh = true
	err := w.conn.Read(w.look)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.nap(coarse) // so that a caller with an infinite wait does not spin
	}
}

// limitTo sets the poller's deadline. Setting it costs more than waking too early once, so a deadline that is
// earlier, but not past, is kept.
func (w *Waiter) limitTo(d time.Duration) {
	now := time.Now()
	if w.deadline.After(now) && (d < 0 || w.deadline.Sub(now) <= d) {
		return
	}
	next := time.Time{}
	if d >= 0 {
		next = now.Add(d)
	} else if w.deadline.IsZero() {
		return
	}
	w.deadline = next
	w.poller.SetReadDeadline(next)
}

// readable checks for readable descriptors. The scheduler's poller calls it first before it blocks and discards older
// readiness, which is when the quiet descriptor is armed. A second call means that something has become readable.
func (w *Waiter) readable(uintptr) bool {
	if w.fresh {
		w.fresh = false
		w.arm()
	} else if w.Guesses {
		w.blind = true
		return true
	}
	return w.take(0)
}

func (w *Waiter) arm() {
	if w.quiet != 0 {
		w.control(unix.EPOLL_CTL_MOD, w.quiet, unix.EPOLLIN|unix.EPOLLONESHOT)
		w.armed = true
	}
}

// disarm disarms the quiet descriptor if something else ended the sleep.
func (w *Waiter) disarm() {
	for _, e := range w.events[:w.ready] {
		w.armed = w.armed && int(e.Fd) != w.quiet
	}
	if w.armed {
		w.control(unix.EPOLL_CTL_MOD, w.quiet, unix.EPOLLONESHOT)
		w.armed = false
	}
}

// nap waits in a system call whose timeout is in nanoseconds.
func (w *Waiter) nap(d time.Duration) {
	w.arm()
	w.take(d) // ended by a signal if the scheduler needs to stop all goroutines
	if !w.spare {
		runtime.Gosched()
	}
}

// take calls epoll_pwait2(2) and reads back what Wake has written.
func (w *Waiter) take(d time.Duration) bool {
	w.limit = unix.NsecToTimespec(int64(d))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.events)),
		uintptr(len(w.events)), uintptr(unsafe.Pointer(&w.limit)), 0, 0)
	if errno == unix.ENOSYS { // before Linux 5.11
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epoll), uintptr(unsafe.Pointer(&w.events)),
			uintptr(len(w.events)), uintptr((d + time.Millisecond - 1).Milliseconds()), 0, 0)
	}
	if errno != 0 {
		n = 0
	}
	w.ready = int(n)
	for _, e := range w.events[:w.ready] {
		if int(e.Fd) == w.event {
			var count uint64
			unix.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), 8)
		}
	}
	return w.ready > 0
}
