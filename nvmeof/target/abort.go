package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
)

// notAborted is bit 0 of Abort's result.
const notAborted = 1

// maxAborts is how many Abort commands a controller executes at a time. The ACL field is one less.
const maxAborts = 4

// abort executes Abort, which completes after the command that it names (NVMe base 2.0, 5.1). On the admin queue
// it only aborts Asynchronous Event Requests: other commands do not take long enough.
func abort(c *Controller, r *request) capsule.Status {
	f := r.cmd.Abort()
	r.result = notAborted
	if c.aborts == maxAborts {
		return capsule.StatusAbortLimitExceeded // until another one has completed
	}
	if f.SQID == 0 {
		if held, ok := c.events.Take(f.CID); ok {
			held.finish(capsule.StatusAbortRequested | capsule.StatusDNR)
			r.result = 0
		}
		return capsule.StatusSuccess
	}
	q := c.queue(f.SQID)
	if q == nil {
		return capsule.StatusSuccess
	}
	c.aborts++
	ended := func(aborted bool) {
		c.do(func() {
			c.aborts--
			if aborted {
				r.result = 0
			}
			r.finish(capsule.StatusSuccess)
		})
	}
	if !q.shard.Do(func() { q.abort(f.CID, ended) }) {
		c.aborts--
		return capsule.StatusSuccess
	}
	return statusLater
}
