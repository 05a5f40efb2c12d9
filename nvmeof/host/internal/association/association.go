package association

import (
	"errors"
	"slices"
	"sync"
)

// ErrClosed is an association that was ended by the host.
var ErrClosed = errors.New("controller is disconnected")

// An Association is the queues of a controller: when one ends, the others do.
type Association struct {
	Aborts Aborter
	admin  *Queue // constant once there is another

	mu     sync.Mutex // guards what follows; held for moments only
	open   []*Queue   // connected, the admin queue first
	err    error      // why it is lost
	ending bool       // Close was called
	done   chan struct{}
}

// New returns an association without queues.
func New() *Association { return &Association{done: make(chan struct{})} }

// Admin is the admin queue, which [Association.Add] was called with first.
func (a *Association) Admin() *Queue { return a.admin }

// Done is closed when the association is lost or closed.
func (a *Association) Done() <-chan struct{} { return a.done }

// Err is why the association is lost, [ErrClosed] after Close, nil before.
func (a *Association) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Lose notes why the controller is gone and ends all of its queues. The loops call it.
func (a *Association) Lose(err error) {
	if a.isLost(err) {
		a.failQueues(err, true)
	}
}

// loseQueue is the loss of one queue. With an I/O queue the others of its kind end; the
// admin queue stays until the host shuts the controller down by it: that shows when
// the commands of the lost queue are over.
func (a *Association) loseQueue(q *Queue, err error) {
	if a.isLost(err) {
		a.failQueues(err, q.ID == 0)
	}
}

// isLost notes why the controller is gone, and reports whether it was not before.
func (a *Association) isLost(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return false
	}
	a.err = err
	close(a.done)
	return true
}

func (a *Association) failQueues(err error, admin bool) {
	for _, q := range a.Queues() {
		if admin || q.ID != 0 {
			q.Shard.Do(func() { q.Fabric.Fail(err) })
		}
	}
}

// Add notes a connected queue, first the admin queue. It fails if the association is
// lost already.
func (a *Association) Add(q *Queue) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.open = append(a.open, q)
	}
	return a.err
}

// Queues are those that are connected, the admin queue first.
func (a *Association) Queues() []*Queue {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.open)
}

// Close begins the end of the association by the host, who has to disconnect the queues:
// no other is added. It reports whether the association was lost before, and whether
// this is the first call.
func (a *Association) Close() (lost, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending {
		return false, false
	}
	a.ending = true
	if a.err != nil {
		return true, true
	}
	a.err = ErrClosed
	close(a.done)
	return false, true
}
