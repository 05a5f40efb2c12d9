package target

import (
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// statusUnseen is what a command gets whose host has not identified the namespace since
// another came to its NSID. Hosts with several paths send it again as soon as they know
// what is there, those with one a few times.
const statusUnseen = capsule.StatusInternalPathError

// How long commands wait for their host to identify the namespace. They are looked at
// by a timer, so that nobody else has to know of them.
const (
	lookPeriod = 50 * time.Millisecond
	// replacedWait is for those whose namespace has been replaced since the host
	// connected: it bounds how often the host sends them in vain.
	replacedWait = 250 * time.Millisecond
	// identifyWait is for the host that has connected again, and sends what is left
	// before it has looked round, as Linux does. It is counted from the last Identify
	// command: a host that asks about others is on its way.
	identifyWait = 5 * time.Second
	identifyMost = 20 * time.Second // of a host that never comes to it; Linux gives a command up after 30 s
	// compareWait is how long a host that has identified a namespace needs at most to see
	// that it is another than it thinks.
	compareWait = 250 * time.Millisecond
)

// An unseen command came for a namespace that its host has not identified. It is not
// carried out when the host has: it may be meant for another one. It is answered such that
// the host sends it again, if it then still means to.
type unseen struct {
	r     *request
	ns    *storage.Namespace
	since int64 // when it came
	asked int64 // when it came, or the host's last Identify command was noticed
	seen  int64 // when it was noticed that the namespace is identified; 0: it is not
	asks  uint32
}

// awaitSight keeps a command, which has not begun.
func (r *request) awaitSight(ns *storage.Namespace) {
	q, now := r.queue, r.queue.shard.Now()
	r.stage = stageUnseen
	q.unseen = append(q.unseen, unseen{r: r, ns: ns, since: now, asked: now, asks: q.controller.view.Asks.Load()})
	if !q.look.Running() {
		q.shard.SetTimer(&q.look, lookPeriod)
	}
}

// forgetUnseen takes out a command that is stopped.
func (q *queue) forgetUnseen(r *request) {
	q.unseen = slices.DeleteFunc(q.unseen, func(u unseen) bool { return u.r == r })
}

// lookAgain answers those that have waited long enough.
func (q *queue) lookAgain() {
	now, all := q.shard.Now(), q.unseen
	q.unseen = nil
	for _, u := range all {
		ns, status := q.controller.view.Reach(u.r.cmd.NSID)
		switch {
		case ns == nil:
			u.r.end(status)
		case q.controller.view.Presumed.Load() && !q.controller.view.Replaced(ns):
			u.r.io.start(q, u.r)
		case ns != u.ns || u.over(&q.controller.view, now):
			u.r.end(statusUnseen)
		case u.silent(now) && !q.controller.view.Replaced(ns):
			// The host has not asked about anything since: one that keeps what it knows
			// over a connection.
			q.controller.presume(ns)
			u.r.io.start(q, u.r)
		default:
			q.unseen = append(q.unseen, u)
		}
	}
	if len(q.unseen) > 0 {
		q.shard.SetTimer(&q.look, lookPeriod)
	}
}

// over reports whether the host is to send the command again.
func (u *unseen) over(v *storage.View, now int64) bool {
	if n := v.Asks.Load(); n != u.asks {
		u.asks, u.asked = n, now
	}
	if u.seen == 0 && v.Seen(u.ns) {
		u.seen = now
	}
	switch {
	case v.Replaced(u.ns):
		return now-u.since >= int64(replacedWait)
	case u.seen != 0:
		return now-u.seen >= int64(compareWait)
	}
	return now-u.since >= int64(identifyMost)
}

// silent reports whether the host has not identified anything for long.
func (u *unseen) silent(now int64) bool { return u.seen == 0 && now-u.asked >= int64(identifyWait) }
