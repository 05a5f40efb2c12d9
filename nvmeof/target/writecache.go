package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// Volatile Write Cache (NVMe base 2.0, 5.27.1.4). The caches are those of the operating system and the drive,
// which hosts share. So a host disables the cache only for its own writes, which are executed with Force Unit
// Access. The feature belongs to the controller, and a reset enables it again.
const writeCacheOn = 1

// setWriteCache sets the feature. When it disables the cache, it also flushes earlier writes, since hosts may send
// no Flush from then on. The value changes when that has succeeded. While the flush is under way the cache still
// counts as enabled, and another request to disable it waits for a flush too.
func setWriteCache(c *Controller, r *request, v uint32) capsule.Status {
	on := v&1 != 0
	if on || c.durable.Load() && c.features.values[capsule.FeatureVolatileWriteCache] != writeCacheOn {
		c.durable.Store(!on)
		return setValue(c, r, v&1)
	}
	c.durable.Store(true)
	status, waits := capsule.StatusSuccess, false
	f := &flushAll{c: c, when: "flush to disable the write cache", which: func(ns *storage.Namespace) bool {
		return c.view.Find(ns.ID) == ns
	}}
	f.ended = func(err error) {
		switch away := unflushedAway(c); {
		case err == errForgone:
			status = capsule.StatusSQDeleted
		case !c.durable.Load(): // a reset has enabled it meanwhile
			status = capsule.StatusAbortRequested | capsule.StatusDNR
		case err != nil || away:
			if status = capsule.StatusANAInaccessible; err != nil {
				status = storage.StatusOf(backend.OpFlush, err)
			}
			if c.features.values[capsule.FeatureVolatileWriteCache] == writeCacheOn { // otherwise another request has disabled it
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

// unflushedAway reports whether writes to a namespace that the host sees, and that is away, may not be durable: it
// was suspended, and its flush has not ended, or has failed; or its group was lost without a flush.
func unflushedAway(c *Controller) bool {
	g := c.target.cfg.Gateway
	for n := range c.view.Listed {
		if n.Away() && (g == nil && c.subsystem.life.left.Load() > 0 || g != nil && g.lost(n.Group())) {
			return true
		}
	}
	return false
}
