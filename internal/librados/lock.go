//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BreakLock breaks an exclusive lock of an object if admits returns true for the address of the lock's owner. It does
// nothing if the lock has no owner.
func (p *Pool) BreakLock(object, lock string, admits func(address string) bool) error {
	const size = 512
	names := (*C.char)(C.calloc(3, size))
	defer C.free(unsafe.Pointer(names))
	at := func(i int) *C.char { return (*C.char)(unsafe.Add(unsafe.Pointer(names), i*size)) }
	client, cookie, address := at(0), at(1), at(2)
	var t texts
	defer t.free()
	of, name := t.add(object), t.add(lock)
	n := C.nl_locker(p.handle, of, name, client, cookie, address, size)
	if n < 0 {
		return check("owner of the lock of "+object, n)
	}
	if n == 0 || !admits(C.GoString(address)) {
		return nil
	}
	err := check("break the lock of "+object, C.nl_break_lock(p.handle, of, name, client, cookie))
	if errors.Is(err, unix.ENOENT) { // it was released meanwhile
		return nil
	}
	return err
}
