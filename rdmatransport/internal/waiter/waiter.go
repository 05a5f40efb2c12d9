// Package waiter blocks the owner of a completion queue until something happens.
//
// A sleep goes through the Go scheduler's own poller. The other ways cost more: a
// thread that blocks in a system call gives its processor of the scheduler's up, for
// which the scheduler's monitor wakes with each sleep and looks every 20 µs whether
// somebody keeps one too long; and one that blocks and keeps it is interrupted every
// 10 ms. A wake-up costs several times as much processor time either way. For the same
// reason everything here is in raw system calls, which the scheduler does not see; short
// sleeps, too, since its poller counts in milliseconds.
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

// Waiter is for one owner, who sleeps; Wake may be called by anybody. The zero value
// is to be opened.
type Waiter struct {
	// Guesses says that the owner looks in any case at what most likely ends a sleep, so
	// that Wait need not find out what it was: a system call less. Not together with Quiet,
	// and not changed while somebody waits.
	Guesses bool

	asleep atomic.Bool
	woken  atomic.Bool

	epoll  int      // what ends a sleep
	poller *os.File // the same, in the scheduler's poller; owns it
	conn   syscall.RawConn
	look   func(epoll uintptr) bool // a method value, made once
	// The deadline of the poller; zero: none.
	deadline time.Time

	quiet int  // see Quiet; 0: none
	armed bool // quiet is being watched
	fresh bool // the scheduler's poller has not called readable in this sleep
	blind bool // what ended it was not looked for
	spare bool // the scheduler has a processor to spare for a nap

	// Room for one call; one goroutine at a time waits.
	events [Most]unix.EpollEvent
	ready  int
	limit  unix.Timespec

	mu    sync.Mutex // lets Close wait for a Wake that is writing
	event int        // eventfd; -1 once closed, changed under mu
}

// Most is how many descriptors one Wait looks at.
const Most = 8

// Open makes a waiter usable.
func (w *Waiter) Open() (err error) {
	w.event = -1
	w.spare = runtime.GOMAXPROCS(0) > runtime.NumCPU()
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err = unix.SetNonblock(w.epoll, true); err == nil { // or the scheduler would not poll it
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

// Watch does so once each time that the descriptor becomes readable. What nobody reads
// then ends no other sleep.
func (w *Waiter) Watch(fd int) error {
	return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLET)
}

// Quiet does so for one that is often readable while its owner is awake: the kernel
// tells nobody of that.
func (w *Waiter) Quiet(fd int) error {
	w.quiet = fd
	return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLONESHOT)
}

// Forget undoes Quiet: the descriptor is another's business now. Nobody is waiting.
func (w *Waiter) Forget() {
	if w.quiet != 0 {
		_ = w.control(unix.EPOLL_CTL_DEL, w.quiet, 0)
		w.quiet, w.armed = 0, false
	}
}

func (w *Waiter) control(op, fd int, what uint32) error {
	return unix.EpollCtl(w.epoll, op, fd, &unix.EpollEvent{Events: what, Fd: int32(fd)}) // a raw call
}

// Close frees what Open made. Nobody may be waiting.
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

// Asleep reports whether the owner waits, or is about to.
func (w *Waiter) Asleep() bool { return w.asleep.Load() }

// Wake ends a sleep, or the next one if there is none. It need not write if an earlier
// call did: either the owner sees woken after it announced its sleep, or Wake sees it
// asleep.
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

// coarse is from where on the scheduler's poller will do, which counts in milliseconds.
const coarse = 2 * time.Millisecond

// Wait sleeps for d, without limit if it is negative, or until something happens. It
// returns the descriptors that are readable: all of them if there are fewer than [Most],
// or else perhaps not all. They are valid until the next Wait. If it is blind, as where
// the owner guesses, there is one that it does not name; the next Wait does, and does not
// sleep, if it is still readable then. It may end early for no reason.
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
		w.nap(coarse) // so that a caller that waits without end does not spin
	}
}

// limitTo sets the poller's deadline, which costs more than to wake too early once: one
// that comes earlier, but is not over, stays.
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

// readable looks what there is. The scheduler's poller calls it before it blocks and
// forgets what it knew before: that is when the quiet one is armed. When it calls again,
// something has come.
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

// disarm ends that where it was not the quiet one that ended the sleep.
func (w *Waiter) disarm() {
	for _, e := range w.events[:w.ready] {
		w.armed = w.armed && int(e.Fd) != w.quiet
	}
	if w.armed {
		w.control(unix.EPOLL_CTL_MOD, w.quiet, unix.EPOLLONESHOT)
		w.armed = false
	}
}

// nap waits in a system call, whose limit has nanoseconds.
func (w *Waiter) nap(d time.Duration) {
	w.arm()
	w.take(d) // a signal ends it where the scheduler needs everybody to stop
	if !w.spare {
		runtime.Gosched()
	}
}

// take is epoll_pwait2(2). It takes back what Wake has written.
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
