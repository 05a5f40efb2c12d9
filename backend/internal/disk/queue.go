package disk

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

const (
	maxDepth  = 8192
	reapBatch = 64
)

// A queue's requests pass through three states: waiting for their blocks, in calls of the engine, and waiting for a
// sync.
type queue struct {
	disk     *Disk
	depth    int
	engine   engine
	outcomes []outcome // of one batch
	calls    int       // outstanding in the engine
	inFlight int       // requests taken whose results are not yet polled
	slots    []slot
	free     []uint32
	waiting  []uint32      // slots that wait for blocks, in the order of submission
	order    backend.Order // of waiting
	syncing  []uint32      // slots that wait for a sync
	copies   copies
	copying  int // outstanding calls of copies
	results  backend.Results
	waiter   *stripe.Waiter
	notify   func() // never nil
	again    bool   // a request waits only for the next turn
	watched  bool   // the owner calls Arm
	closing  bool
	closed   bool
}

// newQueue is called with the disk's mutex held.
func newQueue(d *Disk, depth int, notify func()) (*queue, error) {
	// In addition to the requests' calls there may be a sync, possibly for other queues.
	e, err := d.openEngine(depth+1, notify)
	if err != nil {
		return nil, err
	}
	if notify == nil {
		notify = func() {}
	}
	q := &queue{
		disk:     d,
		depth:    depth,
		engine:   e,
		outcomes: make([]outcome, reapBatch),
		slots:    make([]slot, depth),
		free:     make([]uint32, 0, depth),
		waiting:  make([]uint32, 0, depth),
		order:    backend.NewOrder(depth),
		syncing:  make([]uint32, 0, depth),
		results:  backend.NewResults(depth),
		notify:   notify,
		waiter:   d.blocks.Join(notify),
	}
	for i := range depth {
		q.free = append(q.free, uint32(depth-1-i))
	}
	return q, nil
}

// syncID returns the identifier of the sync's call; a request's call has the identifier of its slot.
func (q *queue) syncID() uint32 { return uint32(q.depth) }

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
	q.engine.submit()
	return n
}

// take begins a request.
func (q *queue) take(r *backend.Request) {
	info := q.disk.info.Load()
	failure, err := q.disk.admit(r, info)
	nothing := r.Op == backend.OpFlush && info.ReadOnly || r.Op != backend.OpFlush && r.Length == 0
	if err != nil || nothing {
		q.results.Push(backend.Result{Tag: r.Tag, Err: err})
		return
	}
	last := len(q.free) - 1
	i := q.free[last]
	q.free = q.free[:last]
	q.slots[i] = slot{req: *r, failure: failure}
	if r.Op == backend.OpFlush {
		q.awaitSync(i)
		return
	}
	q.advance(i)
}

// Poll implements [backend.Queue].
func (q *queue) Poll(rs []backend.Result) int {
	q.turn()
	n := q.drain(rs)
	switch {
	case n > 0:
		q.engine.disarm()
	case q.inFlight > 0 && !q.watched:
		// Try once more after arming: notify is called for whatever arrives later.
		if q.arm() {
			q.turn()
			n = q.drain(rs)
		}
		if n == 0 && q.again {
			q.notify()
		}
	}
	return n
}

// arm reports whether something may have arrived since the last turn.
func (q *queue) arm() bool {
	others := len(q.waiting)+len(q.syncing) > 0
	if others {
		q.waiter.Arm()
	}
	return q.engine.arm() || others
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
	if len(q.syncing) > 0 {
		q.checkSyncs()
	}
	q.engine.submit()
}

func (q *queue) reap() {
	q.reapCopies()
	for {
		n := q.engine.reap(q.outcomes)
		q.calls -= n
		for _, o := range q.outcomes[:n] {
			if o.id == q.syncID() {
				q.synced(o)
			} else {
				q.called(o)
			}
		}
		if n < len(q.outcomes) {
			return
		}
	}
}

func (q *queue) start(c call) {
	q.calls++
	q.engine.start(c)
}

// retry tries every request that waits for blocks, in order; conflicting requests do not overtake each other.
func (q *queue) retry() {
	old := q.waiting
	q.waiting = old[:0]
	q.order.Reset()
	for _, i := range old { // advance appends behind what is read here
		q.advance(i)
	}
}

// Idle implements [backend.Queue].
func (q *queue) Idle() bool { return q.inFlight == 0 }

// Release implements [backend.Releaser].
func (q *queue) Release() {
	if !q.closed && q.calls == 0 {
		q.engine.release()
	}
}

// Close implements [backend.Queue]. Under Options.LockedThreads it fails on a thread other than the queue's while
// requests are in flight.
func (q *queue) Close() error {
	if q.closed {
		return nil
	}
	q.closing = true
	q.waiting, q.syncing = nil, nil
	q.engine.abort()
	q.copies.closing.Store(true)
	q.copies.running.Wait()
	for q.reap(); q.calls > 0; q.reap() {
		if err := q.engine.wait(); err != nil {
			return fmt.Errorf("close queue of %s: %w", q.disk.cfg.Name, explainThread(err))
		}
	}
	if err := q.engine.close(); err != nil {
		return fmt.Errorf("close queue of %s: %w", q.disk.cfg.Name, err)
	}
	q.closed = true
	q.inFlight = 0
	q.waiter.Leave()
	q.disk.queueClosed()
	return nil
}

func explainThread(err error) error {
	if err == unix.EEXIST {
		return fmt.Errorf("the queue is used by another thread than before, which Options.LockedThreads excludes: %w", err)
	}
	return err
}

// watchableQueue adds the methods of a queue with an io_uring.
type watchableQueue struct {
	*queue
	ring *ringEngine
}

// Descriptor implements [backend.Watchable].
func (q *watchableQueue) Descriptor() int {
	q.watched = true
	return q.ring.watch()
}

// UseMemory implements [backend.MemoryUser].
func (q *watchableQueue) UseMemory(mem []byte, part int) { q.ring.ring.UseMemory(mem, part) }

// Arm implements [backend.Watchable].
func (q *watchableQueue) Arm() bool {
	q.arm()
	q.ring.armWatched(q.calls > 0)
	q.turn()
	reported := q.calls == 0 || q.ring.armed // whether calls that began in this turn will be reported
	return q.results.Len() == 0 && !q.again && reported
}

// ThreadBound implements [backend.ThreadBound].
func (q *queue) ThreadBound() bool {
	_, ring := q.engine.(*ringEngine)
	return ring && q.disk.cfg.LockedThreads
}
