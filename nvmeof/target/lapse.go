package target

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A lapse is when the association of a host has ended, whether or not somebody was there to end it: the
// keep alive timeout, its grace, and one more timeout for the commands that came before. A host that has
// heard nothing for so long, and the time that it leaves to commands which may be executed yet, sends its
// writes anew on another path (NVMe base 2.1, 9.6). A target that was held up meanwhile, by the machine or
// a signal, has the old ones in its buffers: they must not be executed after the new ones. Times are
// [Target.age]. Shards of I/O queues read it.
type lapse struct{ at atomic.Int64 }

func (l *lapse) never()              { l.at.Store(math.MaxInt64) }
func (l *lapse) set(d time.Duration) { l.at.Store(int64(d)) }

// over is when it is known that the host is not there: other shards may be held up.
func (l *lapse) over() { l.at.Store(1) }

// passed is false before the first set.
func (l *lapse) passed(now time.Duration) bool {
	at := l.at.Load()
	return at != 0 && int64(now) >= at
}

// left is how long it is until then, at least a nanosecond; 0: it never is.
func (l *lapse) left(now time.Duration) time.Duration {
	at := l.at.Load()
	if at == 0 || at == math.MaxInt64 {
		return 0
	}
	return max(1, time.Duration(at)-now)
}

// endLapsed is called where the shard may have been held up. It ends the commands of associations that have
// lapsed, and then these; and of others the commands for groups whose lease is over, since whoever has taken
// them over has what hosts have written there since. Those that a store has cannot be taken back.
func (w *worker) endLapsed() {
	t, now := w.device.target, w.device.target.age()
	var all []*queue
	t.mu.Lock()
	for q := range t.queues {
		if q.worker == w && q.controller != nil {
			all = append(all, q)
		}
	}
	t.mu.Unlock()
	lease := t.cfg.Gateway.leases()
	for _, q := range all {
		switch {
		case q.controller.lapses.passed(now):
			q.endLapsed()
		case lease != nil && q.executesIO() && !q.failed:
			q.disown(lease.Load().Over)
		}
	}
}

// endLapsed ends a queue whose host has given it up.
func (q *queue) endLapsed() {
	if q.failed || q.parting {
		return
	}
	q.parting = true
	q.endRequests()
	c := q.controller
	c.do(func() {
		if !c.props.CSTS.Fatal() {
			expire(c)
		}
	})
	q.disconnect("keep alive timeout")
}

// lapsed completes an admin command of an association that has lapsed: it restarts no timer.
func (q *queue) lapsed(r *request) bool {
	c := q.controller
	if !c.lapses.passed(c.target.age()) {
		return false
	}
	r.finish(capsule.StatusSQDeleted)
	q.endLapsed()
	return true
}
