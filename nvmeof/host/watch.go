package host

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

var _ backend.Watchable = (*Queue)(nil)

// Descriptor implements [backend.Watchable]. From the first call on, a goroutine that polls runs the loop of the I/O
// queue, as for a queue without notify; Arm leaves the loop to the shard's resident goroutine. It returns -1 if no
// descriptor can be made.
func (q *Queue) Descriptor() int {
	if q.event != nil {
		return q.event.Descriptor()
	}
	e, err := shard.NewEvent()
	if err != nil {
		return -1 // out of descriptors: the caller uses notify instead
	}
	q.event, q.wake, q.driven = e, e.Set, true
	return e.Descriptor()
}

// Drive is for an owner of several queues that sleeps for all of them. As with Descriptor, a goroutine that polls runs
// the loop from now on, but the sleep is ended by notify, which must not be nil and is called once after each Arm.
func (q *Queue) Drive() { q.driven = true }

// Arm implements [backend.Watchable].
func (q *Queue) Arm() bool {
	if !q.driven {
		return false
	}
	if q.event != nil {
		q.event.Clear()
	}
	if q.inFlight == 0 {
		return true
	}
	q.armed.Store(true)
	if len(q.refused) > 0 || !q.finished.empty() {
		q.armed.Store(false)
		return false
	}
	q.shard.Attend()
	return true
}

// closeEvent must be called when nothing is in flight.
func (q *Queue) closeEvent() error {
	if q.event == nil {
		return nil
	}
	return q.event.Close()
}
