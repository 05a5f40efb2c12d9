package association

import (
	"errors"
	"slices"
	"sync"
)

// ErrClosed reports an association that the host has ended.
var ErrClosed = errors.New("controller is disconnected")

// An Association is the set of queues of a controller: when one ends, all end.
type Association struct {
	Aborts Aborter
	admin  *Queue // constant once there is another queue

	mu     sync.Mutex // guards the fields below; never held for long
	open   []*Queue   // connected, the admin queue first
	err    error      // why the association is lost
	ending bool       // Close was called
	done   chan struct{}
}

// New returns an association without queues.
func New() *Association { return &Association{done: make(chan struct{})} }

// Admin returns the admin queue, once [Association.NewQueue] has made it.
func (a *Association) Admin() *Queue { return a.admin }

// Done returns a channel that is closed when the association is lost or closed.
func (a *Association) Done() <-chan struct{} { return a.done }

// Err returns the reason why the association is lost, [ErrClosed] after Close, or nil while it is neither.
func (a *Association) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Lose records why the controller is lost, and ends all of its queues. The loops call it.
func (a *Association) Lose(err error) {
	if a.isLost(err) {
		a.failQueues(err, true)
	}
}

// loseQueue handles the loss of one queue. If it is an I/O queue, the other I/O queues end, but the admin queue stays,
// so that the host can shut the controller down with it: after that, the commands of the lost queue have ended.
func (a *Association) loseQueue(q *Queue, err error) {
	if a.isLost(err) {
		a.failQueues(err, q.ID == 0)
	}
}

// isLost records why the controller is lost, and reports whether it was not lost before.
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

// Add adds a connected queue, first the admin queue. It fails if the association is already lost.
func (a *Association) Add(q *Queue) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.open = append(a.open, q)
	}
	return a.err
}

// Queues returns the connected queues, the admin queue first.
func (a *Association) Queues() []*Queue {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.open)
}

// Close begins the end of the association by the host, which must then disconnect the queues; no queue can be added any
// more. It reports whether the association was lost before, and whether this is the first call.
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
