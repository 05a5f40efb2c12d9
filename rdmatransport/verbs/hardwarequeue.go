//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"
)

// A hardwareQueue is one of the two ibv_cqs of a completion queue, one for sends and one for receives, which share
// the channel. They are separate because the completion of a response need not wake the owner, while the next command
// must.
type hardwareQueue struct {
	cq       *C.struct_ibv_cq // nil once closed
	capacity int              // entries of cq
	reserved int              // maximum number of entries that the queue pairs can fill

	armed atomic.Bool // the next completion makes the channel readable, or has done so
	fired bool        // there was a completion since arm
}

// reserve makes room for n more completions: a queue that overflows is lost.
func (h *hardwareQueue) reserve(d *device, n int) error {
	need, limit := h.reserved+n, int(d.hw.max_cqe)
	if need > limit {
		return fmt.Errorf("verbs: %d completions would be outstanding on one completion queue, the limit of %s is %d: use more shards or shorter queues",
			need, d.attrs.Name, limit)
	}
	if need > h.capacity {
		var got C.int
		code := C.nv_resize_cq(d.lib, h.cq, C.int(min(limit, max(need, 2*h.capacity))), &got)
		if err := failure(code, fmt.Sprintf("growing a completion queue to %d entries", need)); err != nil {
			return err
		}
		h.capacity = int(got)
	}
	h.reserved = need
	return nil
}

// take polls for completions. It returns their number or a negative errno.
func (h *hardwareQueue) take(c *completionQueue, wcs []C.struct_nv_wc) int {
	if len(wcs) == 0 {
		return 0
	}
	got := c.pollCQ(h.cq, wcs)
	h.fired = h.fired || got > 0
	return got
}

// noticed reports whether the queue's notification has been produced, or is about to be.
func (h *hardwareQueue) noticed() bool { return h.armed.Load() && h.fired }

// arm requests a notification. It returns false if one was requested already.
func (h *hardwareQueue) arm(c *completionQueue) bool {
	if h.armed.Load() {
		return false
	}
	h.fired = false
	h.armed.Store(c.armCQ(h.cq) == 0)
	return true
}
