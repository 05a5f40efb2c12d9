package host

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

var _ backend.Watchable = (*Queue)(nil)

// Descriptor implements [backend.Watchable]. From the first call on a goroutine that
// polls drives the loop of the I/O queue, as one without notify does; it leaves the
// loop to the resident in Arm. -1 says that there is none.
func (q *Queue) Descriptor() int {
	if q.event != nil {
		return q.event.Descriptor()
	}
	e, err := shard.NewEvent()
	if err != nil {
		return -1 // out of descriptors: notify does it
	}
	q.event, q.wake, q.driven = e, e.Set, true
	return e.Descriptor()
}

// Drive is for an owner of several queues that sleeps for all of them: as with
// Descriptor, a goroutine that polls drives the loop from now on, but what ends the
// sleep is notify, which has to be there, and is called once after each Arm.
func (q *Queue) Drive() { q.driven = true }

// Arm implements [backend.Watchable].
func (q *Queue) Arm() bool {
	if !q.driven {
		return false
	}
	if q.event != nil {
		q.event.Clear()
	}
	if q.flying == 0 {
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

// closeEvent is called when nothing is in flight.
func (q *Queue) closeEvent() error {
	if q.event == nil {
		return nil
	}
	return q.event.Close()
}
