package multipath

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

var _ backend.Watchable = (*Queue)(nil)

// Descriptor implements [backend.Watchable]: one descriptor for all paths, also for
// those to come, that signals results, paths that come or go, and when what waits
// is to be looked at again. It is in place of notify. From the first call on a
// goroutine that polls drives the loops of the paths' queues. -1 says that there is
// none.
func (q *Queue) Descriptor() int {
	if e := q.event.Load(); e != nil {
		return e.Descriptor()
	}
	if q.closed {
		return -1
	}
	e, err := shard.NewEvent()
	if err != nil {
		return -1 // out of descriptors: notify does it
	}
	q.event.Store(e)
	if q.timer == nil {
		q.timer = newTimer(q.wake)
	}
	for _, c := range q.children {
		c.queue.Drive()
	}
	return e.Descriptor()
}

// Arm implements [backend.Watchable]. It takes one system call at most, and one for
// each I/O queue whose loop somebody has to look after meanwhile.
func (q *Queue) Arm() bool {
	e := q.event.Load()
	if e == nil {
		return false
	}
	q.armed.Store(false)
	e.Clear()
	if q.flying == 0 {
		return true
	}
	q.armed.Store(true) // before the looks: what comes after them sets the event
	if q.ready() {
		q.armed.Store(false)
		return false
	}
	for _, c := range q.children {
		if c.flying > 0 && !c.queue.Arm() {
			q.armed.Store(false)
			return false
		}
	}
	return true
}

// ready reports whether a Poll has something to do that is no result of a path.
func (q *Queue) ready() bool {
	if q.stirred.Load() {
		q.prepare()
	}
	if len(q.done) > 0 {
		return true
	}
	return len(q.waiting) > 0 && q.next != never && q.ns.sub.now() >= q.next
}

// wake ends the owner's sleep. Any goroutine may call it.
func (q *Queue) wake() {
	switch e := q.event.Load(); {
	case e != nil:
		if q.armed.Load() && q.armed.Swap(false) {
			e.Set()
		}
	case q.notify != nil:
		q.notify()
	}
}

// newTimer is one that does not run yet.
func newTimer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f) // not before its owner sets it
	t.Stop()
	return t
}
