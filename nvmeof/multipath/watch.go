package multipath

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

var _ backend.Watchable = (*Queue)(nil)

// Descriptor implements [backend.Watchable]. There is one descriptor for all paths, including later ones. It signals
// results, added and removed paths, and when waiting requests must be checked again. It replaces notify. From the first
// call on, a goroutine that polls runs the loops of the paths' queues. It returns -1 if no descriptor can be made.
func (q *Queue) Descriptor() int {
	if e := q.event.Load(); e != nil {
		return e.Descriptor()
	}
	if q.closed {
		return -1
	}
	e, err := shard.NewEvent()
	if err != nil {
		return -1 // out of descriptors: the caller uses notify instead
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

// Arm implements [backend.Watchable]. It takes at most one system call, plus one for each I/O queue whose loop another
// goroutine must run meanwhile.
func (q *Queue) Arm() bool {
	e := q.event.Load()
	if e == nil {
		return false
	}
	q.armed.Store(false)
	e.Clear()
	if q.inFlight == 0 {
		return true
	}
	q.armed.Store(true) // before the checks, so that later results set the event
	if q.ready() {
		q.armed.Store(false)
		return false
	}
	for _, c := range q.children {
		if c.inFlight > 0 && !c.queue.Arm() {
			q.armed.Store(false)
			return false
		}
	}
	return true
}

// ready reports whether Poll has something to do other than taking results of a path.
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

// newTimer returns a timer that is not running.
func newTimer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f) // stopped at once
	t.Stop()
	return t
}
