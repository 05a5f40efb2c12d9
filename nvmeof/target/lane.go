package target

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/stripe"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// An operation is one request to a namespace's store, or a lease of its memory.
type operation struct {
	owner operationOwner
	lane  *lane // whose user it is, or nil
	gate  *gate // through which it came, or nil
	backend.Request
	leased     bool
	exclusive  bool // the lease that is held or waited for
	prev, next *operation
}

// An operationOwner hears how its operation went.
type operationOwner interface {
	completed(err error)
	leasable() // the lease that had to wait is held
}

// A lane is one shard's way to one volume: a queue of its store, and the
// operations that wait for room in it or for a lease. It belongs to the shard; while
// there is none of its index, to Target.opening. The counters go on with another shard.
type lane struct {
	volume *volume // what it leads to
	shard  *shard.Shard
	slot   shard.Slot // to be called again while leases are waited for
	queue  backend.Queue
	watch  backend.Watchable // the queue, where its descriptor ends the shard's sleep
	armed  bool              // since it last had users

	viewer backend.Viewer // nil: none
	memory []byte
	key    rdmatransport.LKey

	lanes   *lanes // the shard's
	listed  bool   // is polled
	users   int    // operations that have the lane
	since   int64  // when the first of them came
	closing func() // called when the last has left
	open    bool   // under Target.opening
	// attached says that operations may come. It is the shard's.
	attached bool

	submit  operationList // to be handed to the store at the end of the turn
	waiting operationList // for a lease
	order   stripe.Order  // of waiting

	flight  []*operation // by tag
	vacant  []uint32     // tags
	batch   []backend.Request
	results [64]backend.Result

	laneCounters
}

// laneCounters are read by other shards for the SMART log.
type laneCounters struct {
	mediaErrors atomic.Uint64
	busy        atomic.Uint64 // nanoseconds with users
	failed      atomic.Bool
}

func (l *lane) init(v *volume, w *worker, q backend.Queue, watch backend.Watchable) {
	depth := w.device.target.cfg.BackendDepth
	l.volume, l.shard, l.queue = v, w.shard, q
	l.slot, l.lanes, l.watch, l.armed = shard.Slot{}, &w.lanes, watch, false
	l.flight = make([]*operation, depth)
	l.vacant = make([]uint32, 0, depth)
	for i := range depth {
		l.vacant = append(l.vacant, uint32(depth-1-i))
	}
	l.batch = make([]backend.Request, 0, depth)
}

// enter makes the operation a user of the lane, which cannot close before it
// has left.
func (l *lane) enter(op *operation) {
	op.lane = l
	if l.users == 0 {
		l.since = l.shard.Now()
	}
	l.users++
	if !l.listed {
		l.lanes.add(l)
	}
}

// release ends a lease and leaves the lane and the gate, where the operation
// has them.
func (op *operation) release() {
	l := op.lane
	if l == nil {
		return
	}
	if op.leased {
		op.leased = false
		l.viewer.Release(op.Offset, op.Length, op.exclusive)
	}
	op.lane, op.Buf = nil, nil
	if g := op.gate; g != nil {
		op.gate = nil
		g.leave()
	}
	if l.users--; l.users > 0 {
		return
	}
	bump(&l.busy, uint64(l.shard.Now()-l.since))
	if l.closing != nil {
		closing := l.closing
		l.closing = nil
		closing()
	}
}

// lease takes the operation's range, shared or exclusively, and reports whether
// it is held now. If not the owner is told later; conflicting operations get
// theirs in order.
func (l *lane) lease(op *operation, exclusive bool) bool {
	op.exclusive = exclusive
	if l.waiting.empty() || !l.order.Conflicts(op.Offset, op.Length, exclusive) {
		if l.viewer.TryLease(op.Offset, op.Length, exclusive) {
			op.leased = true
			return true
		}
	}
	l.order.Add(op.Offset, op.Length, exclusive)
	l.waiting.push(op)
	l.slot.Retry()
	return false
}

// Retry implements [shard.Consumer]: it serves those who wait for leases.
func (l *lane) Retry() {
	waiting := l.waiting
	l.waiting, l.order = operationList{}, stripe.Order{}
	for op := waiting.pop(); op != nil; op = waiting.pop() {
		if l.lease(op, op.exclusive) {
			op.owner.leasable()
		}
	}
}

// Complete and Flush implement [shard.Consumer]: a lane posts no work requests.
func (l *lane) Complete(*rdmatransport.Completion, uint32) {}
func (l *lane) Flush()                                     {}

// forget takes an operation out of those that wait for a lease.
func (l *lane) forget(op *operation) { l.waiting.remove(op) }

// put hands an operation to the store, at the end of this turn if it has room.
func (l *lane) put(op *operation) { l.submit.push(op) }

// withdraw takes an operation back that the store has not been given yet, and
// reports whether that was so.
func (l *lane) withdraw(op *operation) bool {
	for other := l.submit.first; other != nil; other = other.next {
		if other == op {
			l.submit.remove(op)
			return true
		}
	}
	return false
}

// Poll takes the store's results and gives it what is to be done.
func (l *lane) Poll() bool {
	if l.users == 0 {
		return false
	}
	useful := l.push()
	for {
		n := l.queue.Poll(l.results[:])
		for i := range l.results[:n] {
			l.take(&l.results[i])
		}
		useful = useful || n > 0
		if n < len(l.results) {
			return useful
		}
	}
}

// push submits as much as the store takes.
func (l *lane) push() bool {
	l.batch = l.batch[:0]
	for op := l.submit.first; op != nil && len(l.batch) < len(l.vacant); op = op.next {
		op.Tag = uint64(l.vacant[len(l.vacant)-1-len(l.batch)])
		l.batch = append(l.batch, op.Request)
	}
	if len(l.batch) == 0 {
		return false
	}
	n := l.queue.Submit(l.batch)
	for range n {
		op := l.submit.pop()
		l.flight[op.Tag] = op
	}
	l.vacant = l.vacant[:len(l.vacant)-n]
	l.shard.Expect(n)
	clear(l.batch)
	return n > 0
}

// take delivers one result.
func (l *lane) take(res *backend.Result) {
	op := l.flight[res.Tag]
	l.flight[res.Tag] = nil
	l.vacant = append(l.vacant, uint32(res.Tag))
	l.shard.Expect(-1)
	op.owner.completed(res.Err)
}

// Arm reports whether the shard may sleep: the store's descriptor or notify wakes the shard,
// but what it has not been given yet must not be slept over.
func (l *lane) Arm() bool {
	if !l.submit.empty() && len(l.vacant) > 0 {
		return false
	}
	if l.watch == nil || l.users == 0 && !l.armed {
		return true
	}
	// Without users this clears the descriptor.
	l.armed = l.users > 0
	return l.watch.Arm()
}

// An operationList is a queue of operations; each is in one at a time.
type operationList struct{ first, last *operation }

func (q *operationList) empty() bool { return q.first == nil }

func (q *operationList) push(op *operation) {
	op.prev, op.next = q.last, nil
	if q.last == nil {
		q.first = op
	} else {
		q.last.next = op
	}
	q.last = op
}

func (q *operationList) pop() *operation {
	op := q.first
	if op != nil {
		q.remove(op)
	}
	return op
}

func (q *operationList) remove(op *operation) {
	if op.prev == nil {
		q.first = op.next
	} else {
		op.prev.next = op.next
	}
	if op.next == nil {
		q.last = op.prev
	} else {
		op.next.prev = op.prev
	}
	op.prev, op.next = nil, nil
}
