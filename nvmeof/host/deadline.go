package host

import (
	"context"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// ErrDeadline is why a request of a Queue ended that took longer than the queue's
// timeout. It is a [context.DeadlineExceeded].
var ErrDeadline = fmt.Errorf("request was aborted after the queue's timeout: %w", context.DeadlineExceeded)

// deadlineChecks is how often a deadline is looked for in its time.
const deadlineChecks = 4

// minDeadlineCheck is the least time between two looks.
const minDeadlineCheck = time.Millisecond

// A timeLimit is how long the requests of a Queue may take.
type timeLimit struct {
	timeout time.Duration // of requests submitted from now; the caller's
	timer   shard.Timer   // these are the loop's
	every   time.Duration
}

// SetTimeout bounds how long each request submitted from now on may take; 0, as at
// first, is no bound. A request that takes longer is aborted within a quarter of the
// time, and its result is [ErrDeadline] when the controller has answered the abort,
// so that nothing touches its buffer any more. A controller that answers nothing is
// given up after [Options].Timeout; the result of what may change blocks yet is its error
// then.
func (q *Queue) SetTimeout(d time.Duration) { q.limit.timeout = max(d, 0) }

// setDeadline begins the time of a request, in the loop.
func (q *Queue) setDeadline(s *slot) {
	l := &q.limit
	s.deadline = q.shard.Now() + int64(s.timeout)
	every := max(s.timeout/deadlineChecks, minDeadlineCheck)
	if !l.timer.Running() || every < l.every {
		l.every = every
		q.shard.SetTimer(&l.timer, every)
	}
}

// checkDeadlines cancels requests that are overdue.
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
