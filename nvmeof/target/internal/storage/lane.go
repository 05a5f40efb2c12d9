package storage

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Lane is the queue of one shard to one volume: a queue of its store, and the operations that wait for room in
// that or for a lease. It belongs to the shard; while no shard has its index, it is protected by the mutex of
// Volumes. The counters stay for the next shard of that index.
type Lane struct {
	Volume *Volume
	shard  *shard.Shard
	slot   shard.Slot // called again while operations wait for leases
	queue  backend.Queue
	watch  backend.Watchable // the queue, if its descriptor wakes the shard
	armed  bool              // armed since it last had users

	Leaser backend.Leaser // nil: none
	Memory []byte
	Key    rdmatransport.LKey

	lanes   *lanes          // the shard's
	listed  bool            // in lanes, where it is polled
	users   int             // number of operations that use the lane
	since   int64           // when the first of them entered
	closing func()          // called when the last one has left
	open    bool            // under the mutex of Volumes
	idle    <-chan struct{} // closed when it has no users any more; nil: operations may enter; under the mutex of Volumes
	// Attached means that operations may enter. It belongs to the shard.
	Attached bool

	submit  list.List[Operation]        // to be submitted to the store at the end of the turn
	put     bool                        // submit may contain operations
	refused bool                        // the store accepted fewer than it has room for, and has completed none since
	turns   turns                       // operations for which the store had no room
	waiting list.List[Operation]        // operations that wait for a lease
	held    []*Operation                // operations with shared leases, which last as long as their peers take
	asked   uint32                      // how often operations with leases have been asked to release them
	urging  shard.Timer                 // runs while an operation waits for a lease
	home    atomic.Pointer[shard.Shard] // the shard while the lane is attached; read by other shards
	order   backend.Order               // of waiting

	stall               // tracks whether the store completes anything
	depth  int          // maximum number of operations in the store
	flight []*Operation // by slot; grows as needed, since most lanes are idle
	vacant []uint32     // free slots
	issued uint32       // number of tags used; a tag has this in its upper half and the slot in the lower one

	laneCounters
}

// laneCounters are read by other shards for the SMART log.
type laneCounters struct {
	mediaErrors atomic.Uint64
	stalledAt   atomic.Int64  // by Volumes.age; 0: not stalled; see stall
	busy        atomic.Uint64 // nanoseconds during which it had users
	failed      atomic.Bool
}

func (l *Lane) init(v *Volume, w *Shard, q backend.Queue, watch backend.Watchable) {
	l.Volume, l.shard, l.queue = v, w.Shard, q
	l.slot, l.lanes, l.watch, l.armed = shard.Slot{}, &w.lanes, watch, false
	l.depth, l.flight, l.vacant = v.volumes.depth, nil, nil
	l.stall = stall{on: w}
	l.watching.Func = l.checkProgress
	l.urging.Func = l.urge
}

// firstTags is the initial number of slots.
const firstTags = 8

// room makes room for one more operation. It returns false if the store has its maximum.
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

// Count adds the lane's counters to the sums of a volume. Busy is that of the busiest shard.
func (l *Lane) Count(c *health.Counts) {
	c.MediaErrors += l.mediaErrors.Load()
	c.Busy = max(c.Busy, time.Duration(l.busy.Load()))
}

// Enter makes the operation a user of the lane, which cannot be closed before the operation has left.
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

// Lease leases the operation's range, shared or exclusively, and reports whether the lease is held now. If not,
// the owner is called later. Conflicting operations get their leases in order.
func (l *Lane) Lease(op *Operation, exclusive bool) bool {
	op.exclusive = exclusive
	if l.waiting.First() == nil || !l.order.Conflicts(op.Offset, op.Length, exclusive) {
		if l.Leaser.TryLease(op.Offset, op.Length, exclusive) {
			op.leased = true
			if exclusive {
				l.Volume.NoteWritten()
				return true
			}
			op.since, op.place = l.asked, len(l.held)
			l.held = append(l.held, op)
			return true
		}
	}
	l.order.Add(op.Offset, op.Length, exclusive)
	l.waiting.Push(op, &op.link)
	l.slot.Retry()
	l.awaitLeases()
	return false
}

// askInterval is the interval at which, while an operation waits for a lease, the owners of leases are asked to
// release those that have been held for a whole interval. The wait may be longer by as much. Within a data center
// a response is acknowledged much faster.
const askInterval = time.Millisecond

// release ends a lease.
func (l *Lane) release(op *Operation) {
	op.leased = false
	if !op.exclusive {
		last := l.held[len(l.held)-1]
		l.held[op.place], last.place = last, op.place
		l.held[len(l.held)-1] = nil
		l.held = l.held[:len(l.held)-1]
	}
	l.Leaser.Release(op.Offset, op.Length, op.exclusive)
}

// awaitLeases schedules urge.
func (l *Lane) awaitLeases() {
	if !l.urging.Running() {
		l.shard.SetTimer(&l.urging, askInterval)
	}
}

// urge asks all shards to release leases that they have held for long, if an operation still waits for one.
func (l *Lane) urge() {
	if l.waiting.First() == nil && !l.stuck() {
		return
	}
	for i := range l.Volume.lanes {
		other := l.Volume.lanes[i].Load()
		switch {
		case other == nil:
		case other == l:
			l.yield()
		default:
			if s := other.home.Load(); s != nil {
				s.Do(func() {
					if other.home.Load() == s {
						other.yield()
					}
				})
			}
		}
	}
	l.awaitLeases()
}

// stuck reports whether the store, which leases its memory, has operations that it did not complete at once: they
// may wait for leases.
func (l *Lane) stuck() bool { return l.Leaser != nil && len(l.flight) > len(l.vacant) }

// yield asks the owners of leases that have been held since before the previous call. An owner may release its
// lease.
func (l *Lane) yield() {
	l.asked++
	for i := len(l.held) - 1; i >= 0; i-- {
		if i >= len(l.held) {
			continue
		}
		op := l.held[i]
		if n := l.asked - op.since; n > 1 {
			op.Owner.Wanted(time.Duration(n-1) * askInterval)
		}
	}
}

// Retry implements [shard.Consumer]. It leases what can be leased now.
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

// Forget removes an operation that waits for a lease.
func (l *Lane) Forget(op *Operation) { l.waiting.Remove(&op.link) }

// Put submits an operation to the store, at the end of this turn if there is room, otherwise when it is its
// party's turn.
func (l *Lane) Put(op *Operation) {
	if op.Op != backend.OpRead && op.Op != backend.OpFlush {
		l.Volume.NoteWritten()
	}
	if l.turns.empty() {
		l.submit.Push(op, &op.link)
		l.put = true
		return
	}
	l.turns.add(op)
}

// Users returns how many operations have entered the lane.
func (l *Lane) Users() int { return l.users }

// Withdraw removes an operation that was not submitted to the store yet. It returns false if it was submitted.
func (l *Lane) Withdraw(op *Operation) bool {
	switch {
	case !op.link.Linked():
		return false
	case op.late:
		l.turns.remove(op)
	default:
		l.submit.Remove(&op.link)
	}
	return true
}

// due reports whether there are operations that were not submitted to the store.
func (l *Lane) due() bool { return l.put || !l.turns.empty() }

// pick selects the next operations to submit, by party, as many as there is room for.
func (l *Lane) pick() {
	for n := l.depth - len(l.flight) + len(l.vacant); n > 0; n-- {
		op := l.turns.next()
		if op == nil {
			return
		}
		l.submit.Push(op, &op.link)
	}
}

// Poll completes the operations that the store has finished, and submits those that are due.
func (l *Lane) Poll() bool {
	if l.users == 0 {
		return false
	}
	useful := l.due() && l.push()
	results := &l.lanes.results
	for n := len(results); n == len(results); {
		n = l.queue.Poll(results[:])
		for i := range results[:n] {
			l.take(&results[i])
		}
		l.completed += uint(n)
		useful = useful || n > 0
	}
	if l.stalled && l.completed != l.before {
		l.goOn()
	}
	return useful
}

// push submits as much as the store has room for. The rest waits by party, but operations that were picked and
// that the store refused although there was room stay first.
func (l *Lane) push() (useful bool) {
	fair := !l.turns.empty()
	if l.submit.First() == nil {
		l.pick()
	}
	useful = l.pushPicked()
	for !fair && l.submit.First() != nil {
		l.turns.add(l.submit.Pop())
	}
	l.put = l.submit.First() != nil
	return useful
}

func (l *Lane) pushPicked() (useful bool) {
	for l.submit.First() != nil && l.room() {
		batch := l.lanes.batch[:0]
		for op := l.submit.First(); op != nil && len(batch) < len(l.vacant); op = op.link.Next() {
			op.Tag = uint64(l.issued)<<32 | uint64(l.vacant[len(l.vacant)-1-len(batch)])
			l.issued++
			batch = append(batch, op.Request)
		}
		n := l.queue.Submit(batch)
		if n < 0 || n > len(batch) {
			l.blame(fmt.Sprintf("Submit took %d of %d requests", n, len(batch)))
		}
		for range n {
			op := l.submit.Pop()
			l.flight[uint32(op.Tag)] = op
		}
		l.vacant = l.vacant[:len(l.vacant)-n]
		if !l.watching.Running() {
			l.watchProgress()
		}
		if l.Leaser != nil {
			l.awaitLeases()
		}
		l.shard.Expect(n)
		all := n == len(batch)
		l.refused = !all
		clear(batch)
		l.lanes.batch = batch
		useful = useful || n > 0
		if !all {
			return useful
		}
	}
	return useful
}

// take completes the operation of one result. Tags are not reused: otherwise a result that a store returned twice
// could complete another operation, whose data the store still uses.
func (l *Lane) take(res *backend.Result) {
	slot := uint32(res.Tag)
	if uint64(slot) >= uint64(len(l.flight)) || l.flight[slot] == nil || l.flight[slot].Tag != res.Tag {
		l.blame(fmt.Sprintf("Poll returned a result with tag %#x, which no request in flight has; "+
			"each has one result, with the tag that it was submitted with", res.Tag))
	}
	op := l.flight[slot]
	l.flight[slot] = nil
	l.vacant = append(l.vacant, slot)
	l.refused = false
	l.shard.Expect(-1)
	op.Owner.Completed(res.Err)
}

// blame panics, since the store's queue has violated the contract of package backend: it is no longer known who
// uses which memory.
func (l *Lane) blame(what string) {
	panic(fmt.Sprintf("namespace %s: the store (%T) breaks the contract of package backend, which backendtest.Run checks: %s",
		l.Volume.Name, l.Volume.store, what))
}

// Arm reports whether the shard may sleep: the store's descriptor or notification wakes it, but operations that
// are not submitted yet do not. If the store has no room for these, it has others, and notifies their completion.
func (l *Lane) Arm() bool {
	waits := l.refused && len(l.flight) > len(l.vacant)
	if l.due() && !waits && (len(l.vacant) > 0 || len(l.flight) < l.depth) {
		return false
	}
	if l.watch == nil || l.users == 0 && !l.armed {
		return true
	}
	// Without users, this clears the descriptor.
	l.armed = l.users > 0
	return l.watch.Arm()
}
