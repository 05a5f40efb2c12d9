package operation

import (
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Namespaces are the namespaces of a controller that have been opened. The zero value has none.
type Namespaces struct {
	count atomic.Int32

	mu    sync.Mutex
	lanes map[capsule.NSID]*Lanes
}

// Lanes are the lanes of one namespace, by the index of the I/O queue. Each is owned by its queue's loop.
type Lanes struct{ of []*Lane }

// Lanes returns the lanes of a namespace, the same ones for every caller.
func (n *Namespaces) Lanes(id capsule.NSID, queues int) *Lanes {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lanes[id]; l != nil {
		return l
	}
	if n.lanes == nil {
		n.lanes = map[capsule.NSID]*Lanes{}
	}
	l := &Lanes{make([]*Lane, queues)}
	n.lanes[id] = l
	n.count.Add(1)
	return l
}

// A Lane queues the operations on one namespace on one I/O queue; they begin in order. It limits what they occupy while
// there are other namespaces: part of the queue's entries, half of them in total, is reserved evenly for the
// namespaces, and each has a share of the buffers. So if the commands of one namespace get no response, something is
// left for the others at any time.
type Lane struct {
	queue    *IOQueue
	waiting  list.List[Op]   // operations that are not fully sent, in order
	link     list.Link[Lane] // in the queue's line or full, unless the lane waits for a buffer
	full     bool            // the lane is in the queue's full
	inFlight int             // number of entries in use
	source   fabric.Source

	share  shard.Share
	spare  shard.Buffer // allocated for the first of waiting
	waiter shard.BufferWaiter
}

// lane returns the lane of a namespace.
func (q *IOQueue) lane(n *Namespace) *Lane {
	if l := n.Lanes.of[q.index]; l != nil {
		return l
	}
	l := &Lane{queue: q}
	l.source.Open(q.Queue.Fabric)
	l.share.Open(q.Queue.Pool.Arena)
	l.waiter.Ready = func(b shard.Buffer) {
		l.spare = b
		q.line.Push(l, &l.link)
		q.slot.Retry()
	}
	n.Lanes.of[q.index] = l
	q.lanes = append(q.lanes, l)
	return l
}

// ready puts a lane with waiting operations into the line, unless it waits for a buffer.
func (l *Lane) ready() {
	switch q := l.queue; {
	case l.full:
		q.full.Remove(&l.link)
		l.full = false
	case l.link.Linked() || l.waiter.Waiting():
		return
	}
	l.queue.line.Push(l, &l.link)
}

// rest removes a lane without waiting operations from the line.
func (l *Lane) rest() {
	if l.full {
		l.queue.full.Remove(&l.link)
		l.full = false
	} else {
		l.queue.line.Remove(&l.link)
	}
	l.dropSpare()
}

// dropSpare releases a buffer that is no longer needed, or stops waiting for one.
func (l *Lane) dropSpare() {
	l.waiter.Cancel()
	if l.spare.Valid() {
		l.queue.Queue.Pool.Release(l.spare)
		l.spare = shard.Buffer{}
	}
}

// A quota divides an I/O queue's entries: a number of them is reserved for each lane, and the rest is common. If there
// are too many namespaces to reserve one for each, half of the entries is common, and the other half is for lanes that
// use none: one operation each.
type quota struct {
	namespaces *atomic.Int32
	counted    int32 // of namespaces
	own        int   // entries reserved for each
	common     int   // entries for all
	taken      int   // common entries in use
}

// over returns how many of a lane's entries are common ones.
func (u *quota) over(entries int) int { return max(0, entries-u.own) }

// may reports whether a lane may use n more entries. A lane that uses none always may.
func (u *quota) may(l *Lane, n int) bool {
	return l.inFlight == 0 || u.taken+u.over(l.inFlight+n)-u.over(l.inFlight) <= u.common
}

func (u *quota) add(l *Lane, n int) {
	u.taken -= u.over(l.inFlight)
	l.inFlight += n
	u.taken += u.over(l.inFlight)
}

// divide divides the entries again if the number of namespaces has changed.
func (q *IOQueue) divide() {
	u := &q.quota
	n := u.namespaces.Load()
	if n == u.counted {
		return
	}
	entries := len(q.all)
	u.counted, u.own, u.common, u.taken = n, entries, 0, 0
	if n > 1 {
		u.own = entries / 2 / int(n)
		u.common = entries - int(n)*u.own
	}
	if u.own == 0 {
		u.common = (entries + 1) / 2
	}
	for _, l := range q.lanes {
		u.taken += u.over(l.inFlight)
	}
	for l := q.full.First(); l != nil; l = q.full.First() {
		l.ready()
	}
}

// vacate returns entries of a lane, and readies lanes that waited for them.
func (q *IOQueue) vacate(l *Lane, n int) {
	before := q.quota.taken
	q.quota.add(l, -n)
	if l.full {
		l.ready()
	}
	if first := q.full.First(); first != nil && q.quota.taken < before {
		first.ready()
	}
}
