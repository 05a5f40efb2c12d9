package target

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// An expiry is the time at which the association of a host expires, even if the target does not notice: at most
// expiryPeriods keep alive timeouts after the arrival of the host's last command. A host that has lost its connection,
// and has waited for the time in which its commands may still be executed, sends its writes again on another path
// (NVMe base 2.1, 9.6). A target that was stopped meanwhile, with its machine or by a signal, still has the old
// writes in its buffers: it must not execute them after the new ones. Times are [Target.age]. Shards of I/O queues
// read it.
type expiry struct{ at atomic.Int64 }

// expiryPeriods is how many keep alive timeouts a host waits before it sends writes again, if any command restarts
// the timer, as here (NVMe base 2.1, 9.6). A target that was not stopped ends the association within two and a half.
const expiryPeriods = 3

func (l *expiry) never()              { l.at.Store(math.MaxInt64) }
func (l *expiry) set(d time.Duration) { l.at.Store(int64(d)) }

// over makes it passed, since the host is known to be gone: other shards may have been stopped.
func (l *expiry) over() { l.at.Store(1) }

// passed reports whether the time has passed. It returns false before the first set.
func (l *expiry) passed(now time.Duration) bool {
	at := l.at.Load()
	return at != 0 && int64(now) >= at
}

// left returns the time that is left, at least a nanosecond; 0 means that it never passes.
func (l *expiry) left(now time.Duration) time.Duration {
	at := l.at.Load()
	if at == 0 || at == math.MaxInt64 {
		return 0
	}
	return max(1, time.Duration(at)-now)
}

// endExpired is called when the shard may have been stopped for a while. It ends the associations that have expired,
// and first their commands. Of the others it ends the commands for groups whose lease has expired, since hosts may
// have written there through the new owner since. Operations that were submitted to a store cannot be taken back.
func (w *worker) endExpired() {
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
		case q.controller.expires.passed(now):
			q.endExpired()
		case lease != nil && q.executesIO() && !q.failed:
			q.abortGroups(lease.Load().Over)
		}
	}
}

// endExpired ends a queue whose host has given it up.
func (q *queue) endExpired() {
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
	q.disconnect(endKeepAlive)
}

// expired reports whether the association has expired. If so it completes the admin command, which restarts no
// timer.
func (q *queue) expired(r *request) bool {
	c := q.controller
	if !c.expires.passed(c.target.age()) {
		return false
	}
	r.finish(capsule.StatusSQDeleted)
	q.endExpired()
	return true
}
