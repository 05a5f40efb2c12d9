//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Watch receives the messages to the watchers of an object. It belongs to one goroutine.
type Watch struct {
	handle *C.struct_nl_watch
	event  *os.File
}

// Watch begins to watch an object, which must exist.
func (p *Pool) Watch(object string) (*Watch, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &Watch{event: os.NewFile(uintptr(fd), "eventfd")}
	var t texts
	defer t.free()
	if err := check("watch", C.nl_watch(p.handle, p.client.handle, t.add(object), C.int(fd), &w.handle)); err != nil {
		_ = w.event.Close()
		return nil, err
	}
	return w, nil
}

// Next waits for messages, at most for a time, and returns those that arrived. An error means that the watch is lost.
func (w *Watch) Next(most time.Duration) ([][]byte, error) {
	var count [8]byte
	_ = w.event.SetReadDeadline(time.Now().Add(most))
	_, _ = w.event.Read(count[:]) // a timeout is no error here
	var all [][]byte
	for {
		var size C.size_t
		m := C.nl_watch_next(w.handle, &size)
		if m == nil {
			break
		}
		all = append(all, C.GoBytes(unsafe.Pointer(m), C.int(size)))
		C.free(unsafe.Pointer(m))
	}
	return all, check("watch", C.nl_watch_error(w.handle))
}

// Wake makes Next return. Any goroutine may call it.
func (w *Watch) Wake() { _, _ = w.event.Write(binary.NativeEndian.AppendUint64(nil, 1)) }

// Close ends the watch.
func (w *Watch) Close() {
	C.nl_unwatch(w.handle)
	_ = w.event.Close()
}

// Notify sends a message to the watchers of an object without waiting for them.
func (p *Pool) Notify(object, message string) error {
	var t texts
	defer t.free()
	return check("notify", C.nl_notify(p.handle, t.add(object), t.add(message), C.size_t(len(message))))
}
