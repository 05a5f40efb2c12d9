package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Volatile Write Cache (NVMe base 2.0, 5.27.1.4). The cache is the operating system's and
// the drive's, which hosts share, so a host disables it for its own writes: each is
// executed as one with Force Unit Access. The feature is the controller's, and enabled
// again by a reset.
const writeCacheOn = 1

// setWriteCache, to disable the cache, also makes durable what was written before: hosts
// may send no Flush from then on. The value changes when that has succeeded; while the
// flush is under way it is still enabled, and another request to disable it waits for a
// flush too.
func setWriteCache(c *Controller, r *request, v uint32) capsule.Status {
	on := v&1 != 0
	if on || c.durable.Load() && c.features.values[capsule.FeatureVolatileWriteCache] != writeCacheOn {
		c.durable.Store(!on)
		return setValue(c, r, v&1)
	}
	c.durable.Store(true)
	status, waits := capsule.StatusSuccess, false
	f := &flushAll{c: c, when: "flush to switch the write cache off", which: func(ns *storage.Namespace) bool {
		return c.view.Find(ns.ID) == ns
	}}
	f.ended = func(err error) {
		switch away := unflushedAway(c); {
		case err == errForgone:
			status = capsule.StatusSQDeleted
		case !c.durable.Load(): // a reset in between has enabled it
			status = capsule.StatusAbortRequested | capsule.StatusDNR
		case err != nil || away:
			if status = capsule.StatusANAInaccessible; err != nil {
				status = storage.StatusOf(backend.OpFlush, err)
			}
			if c.features.values[capsule.FeatureVolatileWriteCache] == writeCacheOn { // else another request has disabled it
				c.durable.Store(false)
			}
		default:
			setValue(c, r, 0)
		}
		if waits {
			r.finish(status)
		}
	}
	if f.begin() {
		return status
	}
	waits = true
	return statusLater
}

// unflushedAway reports whether what was written to a namespace that the host sees, and that is away, may not be durable:
// it was suspended, and its flush has not ended, or has failed; or its group was lost without one.
func unflushedAway(c *Controller) bool {
	g := c.target.cfg.Gateway
	for n := range c.view.Listed {
		if n.Away() && (g == nil && c.subsystem.life.left.Load() > 0 || g != nil && g.lost(n.Group())) {
			return true
		}
	}
	return false
}
