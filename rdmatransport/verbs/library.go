//go:build verbs && cgo && linux

package verbs

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#cgo noescape nv_poll_cq
#cgo nocallback nv_poll_cq
#cgo noescape nv_post_send
#cgo nocallback nv_post_send
#cgo noescape nv_post_recv
#cgo nocallback nv_post_recv
#cgo noescape nv_post_srq_recv
#cgo nocallback nv_post_srq_recv
#cgo noescape nv_get_event
#cgo nocallback nv_get_event
#cgo noescape nv_get_async
#cgo nocallback nv_get_async
#cgo nocallback nv_arm_cq
#cgo nocallback nv_take_cq_event
#cgo nocallback nv_take_cq_events
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loadLibrary loads libibverbs and librdmacm (dlopen(3)).
func loadLibrary() (*C.struct_nv_lib, error) {
	const size = 512
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	lib := C.nv_open_lib(message, size)
	if lib == nil {
		return nil, &LibraryError{Detail: C.GoString(message)}
	}
	return lib, nil
}

// A LibraryError means that the RDMA libraries of this machine cannot be used.
type LibraryError struct {
	Detail string // message of dlopen(3)
}

func (e *LibraryError) Error() string {
	return "verbs: the RDMA libraries cannot be loaded: " + e.Detail +
		": install rdma-core's libraries (Debian and Ubuntu: libibverbs1 librdmacm1 ibverbs-providers;" +
		" Fedora: libibverbs librdmacm)"
}

// failure returns the error of a call of the shim, or nil. code is a negative errno on failure, and doing what was
// being done.
func failure(code C.int, doing string) error {
	if code >= 0 {
		return nil
	}
	return failureOf(unix.Errno(-code), doing)
}

// failureOf returns an error for an errno, with a hint on what can be done about it.
func failureOf(errno unix.Errno, doing string) error {
	hint := ""
	switch {
	case errors.Is(errno, unix.ENOMEM) || errors.Is(errno, unix.EAGAIN):
		hint = " (the limit on locked memory may be too low: ulimit -l, LimitMEMLOCK= of a systemd unit)"
	case errors.Is(errno, unix.EPERM) || errors.Is(errno, unix.EACCES):
		hint = " (this user may not use /dev/infiniband)"
	case errors.Is(errno, unix.EIO):
		hint = " (the RDMA device may be gone)"
	}
	return fmt.Errorf("verbs: %s: %w%s", doing, errno, hint)
}
