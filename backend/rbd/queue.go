package rbd

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

const (
	maxDepth  = 8192
	reapBatch = 64
)

// A queue implements [backend.Queue] and [backend.Watchable]. A request either waits for other requests of the store or
// is in a call.
type queue struct {
	store    *Store
	depth    int
	ring     *ring
	outcomes []outcome // of one batch
	calls    []call    // prepared
	running  int       // calls that have not been reaped
	inFlight int       // requests taken whose results are not yet polled
	slots    []slot
	free     []uint32
	waiting  []uint32 // slots that wait for their range, in the order of submission
	results  backend.Results
	waiter   *stripe.Waiter
	notify   func() // never nil
	again    bool   // a request waits only for the next turn
	watched  bool   // the owner calls Arm
	closing  bool
	closed   bool

	// The goroutine that waits for the eventfd if the owner does not.
	listener *os.File
	stopped  chan struct{}
	left     chan struct{} // closed when the calls that Close left behind have ended
}

func newQueue(s *Store, depth int, notify func()) (*queue, error) {
	r, err := newRing(depth, s.memory)
	if err != nil {
		return nil, err
	}
	if notify == nil {
		notify = func() {}
	}
	q := &queue{
		store: s, depth: depth, ring: r, notify: notify,
		outcomes: make([]outcome, reapBatch),
		calls:    make([]call, 0, depth),
		slots:    make([]slot, depth),
		free:     make([]uint32, 0, depth),
		waiting:  make([]uint32, 0, depth),
		results:  backend.NewResults(depth),
		waiter:   s.blocks.Join(notify),
	}
	for i := range depth {
		q.free = append(q.free, uint32(depth-1-i))
	}
	return q, nil
}

// Submit implements [backend.Queue].
func (q *queue) Submit(rs []backend.Request) int {
	if q.closing {
		return 0
	}
	n := min(len(rs), q.depth-q.inFlight)
	q.inFlight += n
	for i := range rs[:n] {
		q.take(&rs[i])
	}
	q.start()
	return n
}

// take begins a request.
func (q *queue) take(r *backend.Request) {
	info, epoch := q.store.info.Load(), q.store.epoch.Load() // before the fields that admit reads, which change first
	err := q.store.admit(r, info)
	if err != nil || r.Op == backend.OpFlush && info.ReadOnly || r.Op != backend.OpFlush && r.Length == 0 {
		q.results.Push(backend.Result{Tag: r.Tag, Err: err})
		return
	}
	last := len(q.free) - 1
	i := q.free[last]
	q.free = q.free[:last]
	q.slots[i].begin(r, epoch)
	q.advance(i)
}

// start passes the prepared calls to the library, all at once.
func (q *queue) start() {
	if len(q.calls) == 0 {
		return
	}
	q.running += len(q.calls)
	q.ring.begin(len(q.calls))
	q.store.current().start(q.ring, q.calls)
	q.calls = q.calls[:0]
}

// Poll implements [backend.Queue].
func (q *queue) Poll(rs []backend.Result) int {
	q.turn()
	n := q.drain(rs)
	switch {
	case n > 0:
		q.ring.disarm()
	case q.inFlight > 0 && !q.watched:
		// Try once more after arming: notify is called for whatever arrives later.
		q.arm()
		q.turn()
		if n = q.drain(rs); n == 0 && q.again {
			q.notify()
		}
	}
	return n
}

func (q *queue) arm() {
	if len(q.waiting) > 0 {
		q.waiter.Arm()
	}
	if q.listener == nil && !q.listen() {
		q.notify() // the owner must keep polling
		return
	}
	q.ring.arm()
}

func (q *queue) drain(rs []backend.Result) int {
	n := q.results.Drain(rs)
	q.inFlight -= n
	return n
}

// turn advances every request that can be advanced.
func (q *queue) turn() {
	q.again = false
	q.reap()
	if len(q.waiting) > 0 {
		q.retry()
	}
	q.start()
}

func (q *queue) reap() {
	for {
		n := q.ring.reap(q.outcomes)
		q.running -= n
		for _, o := range q.outcomes[:n] {
			q.ended(o)
		}
		if n < len(q.outcomes) {
			return
		}
	}
}

// retry tries the requests that wait for their range.
func (q *queue) retry() {
	old := q.waiting
	q.waiting = old[:0]
	for _, i := range old { // advance appends behind what is read here
		q.advance(i)
	}
}

// Idle implements [backend.Queue].
func (q *queue) Idle() bool { return q.inFlight == 0 }

// Descriptor implements [backend.Watchable].
func (q *queue) Descriptor() int {
	q.watched = true
	q.unlisten() // it would consume the events
	return int(q.ring.event)
}

// Arm implements [backend.Watchable].
func (q *queue) Arm() bool {
	if len(q.waiting) > 0 {
		q.waiter.Arm()
	}
	q.turn()
	q.ring.clear()
	if q.running == 0 {
		q.ring.disarm()
	} else if q.ring.arm(); q.ring.ready() {
		return false
	}
	return q.results.Len() == 0 && !q.again
}

// listen starts the goroutine that calls notify for events, and reports whether it succeeded.
func (q *queue) listen() bool {
	fd, err := unix.FcntlInt(uintptr(q.ring.event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	q.listener, q.stopped = os.NewFile(uintptr(fd), "eventfd"), make(chan struct{})
	go func() { // ends when unlisten closes the listener
		defer close(q.stopped)
		var count [8]byte
		for {
			if _, err := q.listener.Read(count[:]); err != nil {
				return
			}
			q.notify()
		}
	}()
	return true
}

func (q *queue) unlisten() {
	if q.listener != nil {
		_ = q.listener.Close()
		<-q.stopped
		q.listener = nil
	}
}

// Close implements [backend.Queue]. If the cluster does not answer it fails with a [HungError]; the buffers of requests
// then remain in use until it answers.
func (q *queue) Close() error {
	if q.closed {
		return nil
	}
	if q.left != nil {
		select {
		case <-q.left:
		default:
			return &HungError{q.store.name.String(), q.store.closeTime}
		}
	}
	if !q.closing {
		q.closing = true
		q.unlisten()
		q.waiter.Leave()
		q.waiting, q.calls = nil, nil
	}
	if q.left == nil && !q.settle(q.store.closeTime) {
		q.left = make(chan struct{})
		go func() { // ends when the cluster answers
			q.settle(-1)
			close(q.left)
		}()
		return &HungError{q.store.name.String(), q.store.closeTime}
	}
	if err := q.ring.close(); err != nil {
		return fmt.Errorf("close queue of %s: %w", q.store.name, err)
	}
	q.closed = true
	q.inFlight = 0
	q.store.queueClosed()
	return nil
}

// settle waits until no call is outstanding, at most for the given time; negative means no limit. It reports whether no
// call is outstanding.
func (q *queue) settle(most time.Duration) bool {
	end := time.Now().Add(most)
	for q.reap(); q.running > 0; q.reap() {
		left := time.Until(end)
		switch {
		case most < 0:
			q.ring.wait(-1)
		case left <= 0:
			return false
		default:
			q.ring.wait(int(left.Milliseconds()) + 1)
		}
	}
	return true
}
