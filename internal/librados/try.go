//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// absent is the name of an object that no pool has.
const absent = "nvmeof.absent"

// Holds reports whether a write to a pool is not executed within a time. It is then withdrawn. The library holds writes
// while the pool is full, and while all writes are paused; it also waits for placement groups that do not answer. The
// write removes an object that does not exist, so that nothing is changed. A client that may not write is refused by the
// pool, which does not hold that write.
func (c *Client) Holds(pool, namespace string, most time.Duration) (bool, error) {
	p, err := c.Pool(pool, namespace)
	if err != nil {
		return false, err
	}
	defer p.Close()
	var t texts
	defer t.free()
	switch err := check(fmt.Sprintf("write to pool %s", pool), C.nl_try(p.handle, t.add(absent), C.int64_t(most/time.Millisecond))); {
	case errors.Is(err, unix.ETIMEDOUT):
		return true, nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return false, nil
	default:
		return false, err
	}
}
