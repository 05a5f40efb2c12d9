package target

import (
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// statusUnidentified is the status of a command whose host has not identified the namespace since it was replaced. Hosts
// with several paths retry as soon as they have identified it, those with one path a few times.
const statusUnidentified = capsule.StatusInternalPathError

// How long commands wait for their host to identify the namespace. A timer checks them, so that no other code has
// to.
const (
	lookPeriod = 50 * time.Millisecond
	// replacedWait is for commands to a namespace that was replaced after the host connected: it limits the rate
	// of their retries.
	replacedWait = 250 * time.Millisecond
	// identifyWait is for a host that has reconnected, and sends earlier commands before its Identify commands, as
	// Linux does. It is counted from the last Identify command, since a host identifies namespaces one after
	// another.
	identifyWait = 5 * time.Second
	identifyMost = 20 * time.Second // maximum for a host that does not identify it; Linux aborts a command after 30 s
	// compareWait is the maximum time that a host needs to notice, after it has read the identity of a namespace,
	// that it is another one.
	compareWait = 250 * time.Millisecond
)

// An unidentifiedCommand is a command for a namespace that its host has not identified. When the host has identified it, the
// command is not executed, since it may be meant for another namespace, but completes such that the host retries
// it, if that is still intended.
type unidentifiedCommand struct {
	r          *request
	ns         *storage.Namespace // the namespace when it arrived
	since      int64              // when it arrived
	identified int64              // when it arrived, or when the host's last Identify command was noticed
	seen       int64              // when it was noticed that the host has identified the namespace; 0: it has not
	asks       uint32
}

// awaitIdentify holds a command that has not begun.
func (r *request) awaitIdentify(ns *storage.Namespace) {
	q, now := r.queue, r.queue.shard.Now()
	r.stage = stageUnseen
	q.unidentified = append(q.unidentified, unidentifiedCommand{r: r, ns: ns, since: now, identified: now, asks: q.controller.view.Asks.Load()})
	if !q.look.Running() {
		q.shard.SetTimer(&q.look, lookPeriod)
	}
}

// forgetUnseen removes a command that is stopped.
func (q *queue) forgetUnseen(r *request) {
	q.unidentified = slices.DeleteFunc(q.unidentified, func(u unidentifiedCommand) bool { return u.r == r })
}

// lookAgain completes the commands that have waited long enough.
func (q *queue) lookAgain() {
	now, all := q.shard.Now(), q.unidentified
	q.unidentified = nil
	for _, u := range all {
		ns, status := q.controller.view.Reach(u.r.cmd.NSID)
		switch {
		case ns == nil:
			u.r.end(status)
		case q.controller.view.Presumed.Load() && !q.controller.view.Replaced(ns):
			u.r.io.start(q, u.r)
		case ns != u.ns || u.over(&q.controller.view, now):
			u.r.end(statusUnidentified)
		case u.silent(now) && !q.controller.view.Replaced(ns):
			// The host has identified nothing since then: it keeps what it knew before it reconnected.
			q.controller.presume(ns)
			u.r.io.start(q, u.r)
		default:
			q.unidentified = append(q.unidentified, u)
		}
	}
	if len(q.unidentified) > 0 {
		q.shard.SetTimer(&q.look, lookPeriod)
	}
}

// over reports whether the command has to complete so that the host retries it.
func (u *unidentifiedCommand) over(v *storage.View, now int64) bool {
	if n := v.Asks.Load(); n != u.asks {
		u.asks, u.identified = n, now
	}
	if u.seen == 0 && v.Identified(u.ns) {
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

// silent reports whether the host has identified nothing for identifyWait.
func (u *unidentifiedCommand) silent(now int64) bool {
	return u.seen == 0 && now-u.identified >= int64(identifyWait)
}
