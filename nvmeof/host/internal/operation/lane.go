package operation

import (
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Namespaces are those of a controller that there are operations on. The zero value has
// none.
type Namespaces struct {
	count atomic.Int32

	mu    sync.Mutex
	lanes map[capsule.NSID]*Lanes
}

// Lanes are one namespace's, by the number of the I/O queue. Each is its queue's loop's.
type Lanes struct{ of []*Lane }

// Lanes returns those of a namespace, which are the same whoever asks.
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

// A Lane is what an I/O queue has of the operations on one namespace, which begin in order.
// It bounds what they hold while there are other namespaces: of the queue's entries a part is
// each namespace's own, half of all together, and of the buffers it has a share. So a
// namespace whose commands get no answer leaves something to the others, whenever those come.
type Lane struct {
	queue   *IOQueue
	waiting list.List[Op]   // operations of which not all has been sent, in order
	link    list.Link[Lane] // in the queue's line or full, unless it waits for a buffer
	full    bool            // it is in the queue's full
	flying  int             // entries in use
	source  fabric.Source

	share  shard.Share
	spare  shard.Buffer // came for the first in waiting
	waiter shard.BufferWaiter
}

// lane returns that of a namespace.
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

// ready puts a lane with operations that wait into the line, unless it waits for a buffer.
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

// rest takes a lane out in which nothing waits.
func (l *Lane) rest() {
	if l.full {
		l.queue.full.Remove(&l.link)
		l.full = false
	} else {
		l.queue.line.Remove(&l.link)
	}
	l.dropSpare()
}

// dropSpare forgets a buffer that nothing waits for.
func (l *Lane) dropSpare() {
	l.waiter.Cancel()
	if l.spare.Valid() {
		l.queue.Queue.Pool.Release(l.spare)
		l.spare = shard.Buffer{}
	}
}

// A quota is how an I/O queue's entries are divided: so many are each lane's own, and the
// rest is taken by who comes. Where there are too many namespaces for one each, what is common is
// half, and the other half is for who has none: one operation each.
type quota struct {
	namespaces *atomic.Int32
	counted    int32 // of namespaces
	own        int   // of each
	common     int   // of all
	taken      int   // of common
}

// over is what a lane with so many entries has of the common ones.
func (u *quota) over(entries int) int { return max(0, entries-u.own) }

// may reports whether a lane may use n entries more. One that uses none always may.
func (u *quota) may(l *Lane, n int) bool {
	return l.flying == 0 || u.taken+u.over(l.flying+n)-u.over(l.flying) <= u.common
}

func (u *quota) add(l *Lane, n int) {
	u.taken -= u.over(l.flying)
	l.flying += n
	u.taken += u.over(l.flying)
}

// divide divides the entries anew if there are other namespaces than before.
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
		u.taken += u.over(l.flying)
	}
	for l := q.full.First(); l != nil; l = q.full.First() {
		l.ready()
	}
}

// vacate gives back entries of a lane, and lets go on who waited for that.
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
