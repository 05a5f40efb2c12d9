package storage

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Lane is one shard's way to one volume: a queue of its store, and the
// operations that wait for room in it or for a lease. It belongs to the shard; while
// there is none of its index, to the mutex of Volumes. The counters go on with another shard.
type Lane struct {
	Volume *Volume // what it leads to
	shard  *shard.Shard
	slot   shard.Slot // to be called again while leases are waited for
	queue  backend.Queue
	watch  backend.Watchable // the queue, where its descriptor ends the shard's sleep
	armed  bool              // since it last had users

	Viewer backend.Viewer // nil: none
	Memory []byte
	Key    rdmatransport.LKey

	lanes   *lanes          // the shard's
	listed  bool            // is polled
	users   int             // operations that have the lane
	since   int64           // when the first of them came
	closing func()          // called when the last has left
	open    bool            // under the mutex of Volumes
	idle    <-chan struct{} // nobody has it any more; nil: those may come who want; under the mutex of Volumes
	// Attached says that operations may come. It is the shard's.
	Attached bool

	submit  list.List[Operation] // to be handed to the store at the end of the turn
	waiting list.List[Operation] // for a lease
	order   backend.Order        // of waiting

	depth  int          // operations that the store has at most
	flight []*Operation // by tag; as many as there ever were, since most lanes are idle
	vacant []uint32     // tags

	laneCounters
}

// laneCounters are read by other shards for the SMART log.
type laneCounters struct {
	mediaErrors atomic.Uint64
	busy        atomic.Uint64 // nanoseconds with users
	failed      atomic.Bool
}

func (l *Lane) init(v *Volume, w *Place, q backend.Queue, watch backend.Watchable) {
	l.Volume, l.shard, l.queue = v, w.Shard, q
	l.slot, l.lanes, l.watch, l.armed = shard.Slot{}, &w.lanes, watch, false
	l.depth, l.flight, l.vacant = v.volumes.depth, nil, nil
}

// firstTags is how many operations there is room for at first.
const firstTags = 8

// room sees to it that an operation can be handed over, and reports whether one can.
func (l *Lane) room() bool {
	had := len(l.flight)
	if len(l.vacant) > 0 || had == l.depth {
		return len(l.vacant) > 0
	}
	n := min(max(firstTags, 2*had), l.depth)
	flight := make([]*Operation, n)
	copy(flight, l.flight)
	l.flight, l.vacant = flight, make([]uint32, 0, n)
	for i := n; i > had; i-- {
		l.vacant = append(l.vacant, uint32(i-1))
	}
	return true
}

// Count adds what the lane counted to the sums of a volume. Busy is the busiest shard.
func (l *Lane) Count(c *health.Counts) {
	c.MediaErrors += l.mediaErrors.Load()
	c.Busy = max(c.Busy, time.Duration(l.busy.Load()))
}

// Enter makes the operation a user of the lane, which cannot close before it
// has left.
func (l *Lane) Enter(op *Operation) {
	op.Lane = l
	if l.users == 0 {
		l.since = l.shard.Now()
	}
	l.users++
	if !l.listed {
		l.lanes.add(l)
	}
}

// Lease takes the operation's range, shared or exclusively, and reports whether
// it is held now. If not the owner is told later; conflicting operations get
// theirs in order.
func (l *Lane) Lease(op *Operation, exclusive bool) bool {
	op.exclusive = exclusive
	if l.waiting.First() == nil || !l.order.Conflicts(op.Offset, op.Length, exclusive) {
		if l.Viewer.TryLease(op.Offset, op.Length, exclusive) {
			op.leased = true
			return true
		}
	}
	l.order.Add(op.Offset, op.Length, exclusive)
	l.waiting.Push(op, &op.link)
	l.slot.Retry()
	return false
}

// Retry implements [shard.Consumer]: it serves those who wait for leases.
func (l *Lane) Retry() {
	waiting := l.waiting
	l.waiting, l.order = list.List[Operation]{}, backend.Order{}
	for op := waiting.Pop(); op != nil; op = waiting.Pop() {
		if l.Lease(op, op.exclusive) {
			op.Owner.Leasable()
		}
	}
}

// Complete and Flush implement [shard.Consumer]: a lane posts no work requests.
func (l *Lane) Complete(*rdmatransport.Completion, uint32) {}
func (l *Lane) Flush()                                     {}

// Forget takes an operation out of those that wait for a lease.
func (l *Lane) Forget(op *Operation) { l.waiting.Remove(&op.link) }

// Put hands an operation to the store, at the end of this turn if it has room.
func (l *Lane) Put(op *Operation) { l.submit.Push(op, &op.link) }

// Users is how many operations have the lane.
func (l *Lane) Users() int { return l.users }

// Withdraw takes an operation back that the store has not been given yet, and
// reports whether that was so.
func (l *Lane) Withdraw(op *Operation) bool {
	for other := l.submit.First(); other != nil; other = other.link.Next() {
		if other == op {
			l.submit.Remove(&op.link)
			return true
		}
	}
	return false
}

// Poll takes the store's results and gives it what is to be done.
func (l *Lane) Poll() bool {
	if l.users == 0 {
		return false
	}
	useful := l.submit.First() != nil && l.push()
	results := &l.lanes.results
	for {
		n := l.queue.Poll(results[:])
		for i := range results[:n] {
			l.take(&results[i])
		}
		useful = useful || n > 0
		if n < len(results) {
			return useful
		}
	}
}

// push submits as much as the store takes.
func (l *Lane) push() (useful bool) {
	for l.submit.First() != nil && l.room() {
		batch := l.lanes.batch[:0]
		for op := l.submit.First(); op != nil && len(batch) < len(l.vacant); op = op.link.Next() {
			op.Tag = uint64(l.vacant[len(l.vacant)-1-len(batch)])
			batch = append(batch, op.Request)
		}
		n := l.queue.Submit(batch)
		for range n {
			op := l.submit.Pop()
			l.flight[op.Tag] = op
		}
		l.vacant = l.vacant[:len(l.vacant)-n]
		l.shard.Expect(n)
		all := n == len(batch)
		clear(batch)
		l.lanes.batch = batch
		useful = useful || n > 0
		if !all {
			return useful
		}
	}
	return useful
}

// take delivers one result.
func (l *Lane) take(res *backend.Result) {
	op := l.flight[res.Tag]
	l.flight[res.Tag] = nil
	l.vacant = append(l.vacant, uint32(res.Tag))
	l.shard.Expect(-1)
	op.Owner.Completed(res.Err)
}

// Arm reports whether the shard may sleep: the store's descriptor or notify wakes the shard,
// but what it has not been given yet must not be slept over.
func (l *Lane) Arm() bool {
	if l.submit.First() != nil && (len(l.vacant) > 0 || len(l.flight) < l.depth) {
		return false
	}
	if l.watch == nil || l.users == 0 && !l.armed {
		return true
	}
	// Without users this clears the descriptor.
	l.armed = l.users > 0
	return l.watch.Arm()
}
