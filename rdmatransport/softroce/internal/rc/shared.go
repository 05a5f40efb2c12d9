package rc

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// SharedRecv is receives that queue pairs of one shard share (IBTA 10.2.9). The first
// packet of a message moves one to the queue pair's own receive queue, which is where
// the message fills it and whence the end of the queue pair flushes it.
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

// Len is how many are posted and not taken.
func (s *SharedRecv) Len() int { return int(s.queue.tail - s.queue.head) }

// Close gives back what the queue has reserved. No queue pair uses it any more.
func (s *SharedRecv) Close() { s.completions.reserved -= s.queue.depth }

// takeShared gives the queue pair the oldest shared receive, if it shares any and there
// is one.
func (q *QP) takeShared() bool {
	s := q.cfg.Shared
	if s == nil || s.queue.oldest() == nil {
		return false
	}
	q.rq.push(s.queue.oldest().id, s.queue.sgl())
	s.queue.pop()
	return true
}
