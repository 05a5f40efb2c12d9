package host

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

var _ backend.Watchable = (*Queue)(nil)

// Descriptor implements [backend.Watchable]. From the first call on a goroutine that
// polls drives the loop of the I/O queue, as one without notify does; it leaves the
// loop to the resident in Arm. -1 says that there is none.
func (q *Queue) Descriptor() int {
	if q.event != nil {
		return q.event.fd
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return -1 // out of descriptors: notify does it
	}
	q.event = &event{fd: fd}
	q.tell = q.event.set
	return fd
}

// Arm implements [backend.Watchable].
func (q *Queue) Arm() bool {
	if q.event == nil {
		return false
	}
	q.event.clear()
	if q.flying == 0 {
		return true
	}
	q.armed.Store(true)
	if len(q.refused) > 0 || !q.finished.empty() {
		q.armed.Store(false)
		return false
	}
	q.shard.Attend()
	return true
}

// closeEvent is called when nothing is in flight. The loop may still be on its way
// out of finish, which sets the event.
func (q *Queue) closeEvent() error {
	if q.event == nil {
		return nil
	}
	_ = q.shard.Call(func() {}) // closed: nobody is in it
	if err := unix.Close(q.event.fd); err != nil {
		return fmt.Errorf("event of a queue: %w", err)
	}
	return nil
}

// An event is an eventfd: readable once it has been set, until it is cleared.
type event struct{ fd int }

func (e *event) set() {
	one := [8]byte{1}
	_, _ = unix.Write(e.fd, one[:]) // cannot fail but by being set already
}

func (e *event) clear() {
	var b [8]byte
	_, _ = unix.Read(e.fd, b[:]) // EAGAIN: it was not set
}
