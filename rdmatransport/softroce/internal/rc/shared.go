package rc

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// SharedRecv is a shared receive queue for queue pairs of one shard (IBTA 10.2.9). The first packet of a message
// moves one receive to the queue pair's own receive queue. There the message fills it, or the end of the queue pair
// flushes it.
type SharedRecv struct {
	queue       recvQueue
	completions *Completions
}

// NewSharedRecv returns an empty queue for queue pairs that complete on done.
func NewSharedRecv(depth, maxSGE int, done *Completions) *SharedRecv {
	s := &SharedRecv{completions: done}
	s.queue.init(depth, maxSGE)
	done.Reserve(depth)
	return s
}

// PostRecv queues receives, all or none.
func (s *SharedRecv) PostRecv(wrs []rdmatransport.RecvWR) error { return s.queue.post(wrs) }

// Len returns the number of receives that are posted and not taken.
func (s *SharedRecv) Len() int { return int(s.queue.tail - s.queue.head) }

// Close releases the queue's reservation. Its queue pairs must be closed.
func (s *SharedRecv) Close() { s.completions.reserved -= s.queue.depth }

// takeShared moves the oldest shared receive to the queue pair, and reports whether there was one.
func (q *QP) takeShared() bool {
	s := q.cfg.Shared
	if s == nil || s.queue.oldest() == nil {
		return false
	}
	q.rq.push(s.queue.oldest().id, s.queue.sgl())
	s.queue.pop()
	return true
}
