package host

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

// sharing is what the Queues on one loop know of each other. A loop that many are
// on delivers to all of them in one turn, so that a caller who visits them one
// after the other had better not drive it at each, nor send at each, while some
// still have results that nobody has taken: the caller that takes them drives it again.
type sharing struct {
	queues  atomic.Int32
	untaken atomic.Int32 // results in their rings
	vain    atomic.Int32 // polls without a result since the loop was driven by one
}

// share is the sharing of the loop of an I/O queue.
func (h *Host) share(q *operation.IOQueue) *sharing {
	return &h.shares[slices.Index(h.shards, q.Queue.Shard)]
}

// patient reports whether a queue without results leaves the loop alone: not for
// long, since others may be slow to take theirs.
func (s *sharing) patient() bool {
	if s.untaken.Load() > 0 && s.vain.Add(1) < s.queues.Load() {
		return true
	}
	s.vain.Store(0)
	return false
}
