package shard

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Event ends a sleep in a poll or epoll: its descriptor is readable once it was
// set, until it is cleared. Any goroutine may use it. Its lock is held for no longer
// than a system call that does not block, and of which the Go scheduler is not told.
type Event struct {
	fd     int
	mu     sync.Mutex // guards what follows
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

// Descriptor is the eventfd. Nobody else may read, write or close it.
func (e *Event) Descriptor() int { return e.fd }

// Set makes the descriptor readable, with a system call if it is not. After Close it
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

// Clear makes the descriptor unreadable, with a system call if it is not.
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
