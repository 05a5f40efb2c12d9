package disk

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/uring"
)

// ringEngine is an engine with an io_uring.
type ringEngine struct {
	ring   *uring.Ring
	reaped []uring.Completion
	failed []outcome // of calls that the kernel did not accept
	armed  bool

	// Completions are reported in one of two ways: the queue's owner watches the ring's eventfd itself, or a goroutine
	// watches it and calls notify.
	watched  bool
	notify   func()
	listener *os.File
	stopped  chan struct{}

	// Calls that io_uring does not support are made by a second engine, whose completions the eventfd reports too. It
	// is nil until the first such call.
	share *share
	fd    int
	calls int
	side  *threads
}

func newRingEngine(d *Disk, calls int, notify func()) (engine, error) {
	ring, err := uring.New(uring.Config{Entries: calls, File: d.cfg.FD, LockedThread: d.cfg.LockedThreads})
	if err != nil {
		return nil, err
	}
	return &ringEngine{
		ring:   ring,
		reaped: make([]uring.Completion, reapBatch),
		failed: make([]outcome, 0, calls),
		notify: notify,
		share:  &d.share,
		fd:     d.cfg.FD,
		calls:  calls,
	}, nil
}

func (e *ringEngine) start(c call) {
	var ok bool
	switch data := uint64(c.id); c.kind {
	case callRead:
		ok = e.ring.Read(c.buf, c.offset, data)
	case callWrite:
		ok = e.ring.Write(c.buf, c.offset, c.flags, data)
	case callAllocate:
		ok = e.ring.Fallocate(c.flags, c.offset, c.length, data)
	case callSync:
		ok = e.ring.Fdatasync(data)
	case callDiscard:
		e.beside().start(c)
		return
	}
	if !ok {
		panic("disk: more calls than the ring was made for")
	}
}

func (e *ringEngine) submit() {
	if err := e.ring.Submit(); err != nil {
		e.withdraw(err)
	}
}

func (e *ringEngine) abort() { e.withdraw(unix.ECANCELED) }

func (e *ringEngine) withdraw(err error) {
	errno := unix.EIO
	errors.As(err, &errno)
	e.ring.Withdraw(func(data uint64) {
		e.failed = append(e.failed, outcome{id: uint32(data), errno: errno})
	})
}

func (e *ringEngine) reap(outs []outcome) int {
	n := copy(outs, e.failed)
	e.failed = append(e.failed[:0], e.failed[n:]...)
	if e.side != nil {
		n += e.side.reap(outs[n:])
	}
	reaped := e.reaped[:min(len(e.reaped), len(outs)-n)]
	for _, c := range reaped[:e.ring.Reap(reaped)] {
		outs[n] = newOutcome(uint32(c.UserData), c.Result)
		n++
	}
	return n
}

func (e *ringEngine) arm() bool {
	if e.watched || e.notify == nil {
		return false
	}
	beside := e.side != nil && e.side.arm()
	if e.armed {
		return beside
	}
	if e.listener == nil && !e.listen() {
		return true
	}
	e.armed = true
	e.ring.Arm()
	return true
}

// listen starts the goroutine that calls notify for events. It ends with close. If it cannot be started, listen calls
// notify at once, so that the owner keeps polling.
func (e *ringEngine) listen() bool {
	fd, err := unix.FcntlInt(uintptr(e.ring.Event()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		e.notify()
		return false
	}
	e.listener = os.NewFile(uintptr(fd), "eventfd")
	e.stopped = make(chan struct{})
	go func() { // ends when close closes the listener
		defer close(e.stopped)
		var count [8]byte
		for {
			if _, err := e.listener.Read(count[:]); err != nil {
				return
			}
			e.notify()
		}
	}()
	return true
}

func (e *ringEngine) unlisten() {
	if e.listener != nil {
		_ = e.listener.Close()
		<-e.stopped
		e.listener = nil
	}
}

func (e *ringEngine) disarm() {
	if e.armed {
		e.armed = false
		e.ring.Disarm()
	}
	if e.side != nil {
		e.side.disarm()
	}
}

// watch returns the eventfd, for which the queue's owner waits from now on.
func (e *ringEngine) watch() int {
	e.watched = true
	e.unlisten() // it would consume the events
	return e.ring.Event()
}

// armWatched is arm for a watched ring. If no call is outstanding it only clears the eventfd. An enabled eventfd would
// count later calls whose completions are polled for, and would stay readable for an owner that has no reason to arm
// again.
func (e *ringEngine) armWatched(outstanding bool) {
	e.ring.ClearEvent()
	if !outstanding {
		e.disarm()
		return
	}
	e.armed = true
	e.ring.Arm()
	if e.side != nil {
		e.side.arm()
	}
}

// beside returns the engine for calls that io_uring does not support. One thread is enough.
func (e *ringEngine) beside() *threads {
	if e.side == nil {
		one := binary.NativeEndian.AppendUint64(nil, 1)
		e.side = threadsOn(e.share, e.fd, 1, e.calls, func() { _, _ = unix.Write(e.ring.Event(), one) })
	}
	return e.side
}

func (e *ringEngine) wait() error {
	if len(e.failed) > 0 {
		return nil
	}
	if e.side != nil && e.side.outstanding > 0 {
		return e.side.wait()
	}
	return e.ring.Wait()
}

func (e *ringEngine) release() { _ = e.ring.Release() } // else the kernel does, some time after close

func (e *ringEngine) close() error {
	if e.side != nil {
		_ = e.side.close() // cannot fail
	}
	e.unlisten()
	return e.ring.Close()
}
