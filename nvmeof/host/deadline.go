package host

import (
	"context"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// ErrDeadline is the error of a request of a Queue that took longer than the queue's timeout. It wraps
// [context.DeadlineExceeded].
var ErrDeadline = fmt.Errorf("request was aborted after the queue's timeout: %w", context.DeadlineExceeded)

// deadlineChecks is how often a deadline is checked within the timeout.
const deadlineChecks = 4

// minDeadlineCheck is the minimum time between two checks.
const minDeadlineCheck = time.Millisecond

// A timeLimit is the timeout of a Queue's requests.
type timeLimit struct {
	timeout time.Duration // of requests submitted from now on; owned by the caller
	timer   shard.Timer   // timer and every are owned by the loop
	every   time.Duration
}

// SetTimeout bounds how long each request submitted from now on may take; 0, the initial value, means no bound. A
// request that takes longer is aborted within a further quarter of the timeout. Its result is [ErrDeadline] once the
// controller has answered the abort, so that nothing accesses its buffer any more. A controller that does not answer is
// given up after [Options].Timeout. The result of a request that may still change blocks is then the controller's
// error.
func (q *Queue) SetTimeout(d time.Duration) { q.limit.timeout = max(d, 0) }

// setDeadline starts the timeout of a request. It runs in the loop.
func (q *Queue) setDeadline(s *slot) {
	l := &q.limit
	s.deadline = q.shard.Now() + int64(s.timeout)
	every := max(s.timeout/deadlineChecks, minDeadlineCheck)
	if !l.timer.Running() || every < l.every {
		l.every = every
		q.shard.SetTimer(&l.timer, every)
	}
}

// checkDeadlines cancels overdue requests.
func (q *Queue) checkDeadlines() {
	now, left := q.shard.Now(), false
	for i := range q.slots {
		s := &q.slots[i]
		if s.Stoppable() && s.deadline > 0 {
			if s.deadline <= now {
				q.ioQueue.Cancel(&s.Op, ErrDeadline)
			} else {
				left = true
			}
		}
	}
	if left {
		q.shard.SetTimer(&q.limit.timer, q.limit.every)
	}
}
