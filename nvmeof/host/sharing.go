package host

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

// sharing coordinates the Queues of one loop. One turn of the loop delivers results to all of them. A caller that polls
// them one after the other should therefore not run the loop, or send, at each of them while others still have results:
// it takes those first, then runs the loop again.
type sharing struct {
	queues     atomic.Int32
	unpolled   atomic.Int32 // results in their rings that Poll has not returned yet
	emptyPolls atomic.Int32 // polls without a result since a Poll last ran the loop
}

// share returns the sharing of an I/O queue's loop.
func (h *Host) share(q *operation.IOQueue) *sharing {
	return &h.shares[slices.Index(h.shards, q.Queue.Shard)]
}

// patient reports whether a Poll without results leaves the loop alone. It does so only a limited number of times,
// since the other queues may be slow to take their results.
func (s *sharing) patient() bool {
	if s.unpolled.Load() > 0 && s.emptyPolls.Add(1) < s.queues.Load() {
		return true
	}
	s.emptyPolls.Store(0)
	return false
}
