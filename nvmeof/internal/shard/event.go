package shard

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Event ends a sleep in poll or epoll: its descriptor is readable from Set until Clear. Any goroutine may use it.
// Its lock is held only for a system call that does not block and that is made without telling the Go scheduler.
type Event struct {
	fd     int
	mu     sync.Mutex // guards the fields below
	isSet  bool
	closed bool
}

// NewEvent opens an eventfd.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Event{fd: fd}, nil
}

// Descriptor returns the eventfd. Do not read, write or close it.
func (e *Event) Descriptor() int { return e.fd }

// Set makes the descriptor readable. It makes a system call only if the descriptor is not readable yet. After Close it
// does nothing.
func (e *Event) Set() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isSet || e.closed {
		return
	}
	e.isSet = true
	one := [8]byte{1}
	unix.RawSyscall(unix.SYS_WRITE, uintptr(e.fd), uintptr(unsafe.Pointer(&one)), 8) // cannot fail: it was not set
}

// Clear makes the descriptor unreadable. It makes a system call only if the descriptor is readable.
func (e *Event) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isSet || e.closed {
		return
	}
	e.isSet = false
	var b [8]byte
	unix.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&b)), 8) // cannot fail: it was set
}

// Close closes the descriptor.
func (e *Event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if err := unix.Close(e.fd); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return nil
}
