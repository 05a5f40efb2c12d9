package multipath

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Queue executes requests of one goroutine at a time over all paths. It implements [backend.Queue]: Submit takes
// requests in slices, Poll returns results. Neither blocks, or allocates while the set of paths does not change. Data
// in the subsystem's Buffers is transferred without a copy.
type Queue struct {
	ns       *Namespace
	notify   func()
	slots    []slot
	idle     []uint32
	inFlight int // number of slots that are not idle

	done    []uint32 // have a result that Poll has not returned yet
	waiting []uint32 // for a path, or for the time of their retry
	next    int64    // when waiting must be checked again
	timer   *time.Timer

	table    *table
	children []*child // those that have left wait for their last requests
	byRoute  []*child // nil: not opened yet
	cs       []decide.Candidate
	cursor   decide.Cursor
	prepared uint32
	here     rdmatransport.NUMANode // NUMA node of the owner, updated now and then; 0 if it does not matter
	results  [64]backend.Result
	closed   bool
	tally    tally
	stirred  atomic.Bool // the table has been replaced

	event atomic.Pointer[shard.Event] // for Watchable; nil until Descriptor is called
	armed atomic.Bool                 // the event must be set at the next wake
}

// A slot is one request of a Queue.
type slot struct {
	backend.Request
	trial
	began   int64    // when it was submitted
	started int64    // when it was last sent on a path
	flush   flushing // if it is a flush
	err     error
}

// A child is a queue of package host on one session.
type child struct {
	attachment *attachment
	queue      *host.Queue
	batch      []backend.Request
	inFlight   int
	left       bool // the session has ended
}

const maxQueueDepth = 1 << 16

// NewQueue implements [backend.Store]; see [Namespace.OpenQueue].
func (n *Namespace) NewQueue(depth int, notify func()) (backend.Queue, error) {
	return n.OpenQueue(depth, notify)
}

// OpenQueue opens a queue with at most depth requests in flight. notify may be nil; [backend.Store] says when it is
// called.
func (n *Namespace) OpenQueue(depth int, notify func()) (*Queue, error) {
	if depth < 1 || depth > maxQueueDepth {
		return nil, fmt.Errorf("queue of %d requests: want 1 to %d", depth, maxQueueDepth)
	}
	q := &Queue{
		ns: n, notify: notify, slots: make([]slot, depth), next: never, cursor: decide.Cursor{Last: -1},
		done: make([]uint32, 0, depth), waiting: make([]uint32, 0, depth), cs: make([]decide.Candidate, 0, MaxPaths),
	}
	for i := range q.slots {
		q.idle = append(q.idle, uint32(i))
	}
	if notify != nil {
		q.timer = newTimer(q.wake)
	}
	if n.Removed() {
		return nil, cmp.Or(n.Err(), host.ErrRemoved)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.table.Load().closed {
		return nil, ErrClosed
	}
	n.queues = append(n.queues, q)
	q.stirred.Store(true)
	return q, nil
}

// stir tells the queue that the table has been replaced. Any goroutine may call it.
func (q *Queue) stir() {
	q.stirred.Store(true)
	q.wake()
}

// Submit implements [backend.Queue].
func (q *Queue) Submit(rs []backend.Request) int {
	if q.closed {
		return 0
	}
	now := q.prepare()
	info := q.ns.Info()
	info.ReadOnly = false // left to the controller, which is the first to know of a change
	n := 0
	for ; n < len(rs) && len(q.idle) > 0; n++ {
		last := len(q.idle) - 1
		i := q.idle[last]
		q.idle = q.idle[:last]
		q.inFlight++
		s := &q.slots[i]
		s.Request, s.trial, s.began = rs[n], trial{}, now
		if s.Op == backend.OpFlush {
			s.flush = q.ns.writes.beginFlush()
		}
		if s.err = info.Check(&s.Request); s.err != nil {
			q.done = append(q.done, i)
		} else if !q.send(i, now) {
			q.waiting = append(q.waiting, i)
			q.next = 0
		}
	}
	q.tally.inFlight.Add(int64(n))
	q.flush()
	return n
}

// lookAround is after how many batches a queue checks which NUMA node its owner runs on.
const lookAround = 64

// prepare updates the candidates for requests.
func (q *Queue) prepare() (now int64) {
	if q.stirred.Load() {
		q.stirred.Store(false)
		q.adopt(q.ns.table.Load())
		q.prepared = 0
	}
	now = q.ns.sub.now()
	if q.prepared++; q.prepared%lookAround == 1 {
		q.here = q.table.here(q.ns)
	}
	q.cs = q.table.candidates(q.cs, q.ns.sub.Policy(), now, q.here)
	return now
}

// adopt switches to another table.
func (q *Queue) adopt(t *table) {
	q.table, q.next = t, 0
	for _, c := range q.children {
		c.left = true
	}
	q.byRoute = slices.Grow(q.byRoute[:0], len(t.routes))[:len(t.routes)]
	for i := range t.routes {
		q.byRoute[i] = nil
		a := t.routes[i].attachment
		if k := slices.IndexFunc(q.children, func(c *child) bool { return c.attachment == a }); a != nil && k >= 0 {
			q.byRoute[i] = q.children[k]
			q.children[k].left = false
		}
	}
	q.sweep()
}

// sweep closes the queues of sessions that have ended, once they are empty.
func (q *Queue) sweep() {
	q.children = slices.DeleteFunc(q.children, func(c *child) bool {
		if !c.left || c.inFlight > 0 {
			return false
		}
		_ = c.queue.Close() // it is empty
		return true
	})
}

// open returns the queue of a route, or nil if its session has just ended.
func (q *Queue) open(i int) *child {
	if c := q.byRoute[i]; c != nil {
		return c
	}
	a := q.table.routes[i].attachment
	hq, err := a.ns.OpenQueue(len(q.slots), q.wake)
	if err != nil {
		a.block(q.ns.sub.now() + int64(decide.AvoidFor)) // if it has ended, a new table will follow
		return nil
	}
	if q.notify == nil || q.event.Load() != nil {
		hq.Drive()
	}
	c := &child{attachment: a, queue: hq, batch: make([]backend.Request, 0, len(q.slots))}
	q.children = append(q.children, c)
	q.byRoute[i] = c
	return c
}

// send adds a request to the batch of a path. It returns false if no path can be used.
func (q *Queue) send(i uint32, now int64) bool {
	for {
		k := decide.Choose(q.ns.sub.Policy(), q.cs, &q.cursor)
		if k < 0 {
			return false
		}
		c := q.open(k)
		if c == nil {
			q.cs[k].Class = decide.Unusable
			continue
		}
		s := &q.slots[i]
		s.started = now
		r := s.Request
		r.Tag = uint64(i)
		c.batch = append(c.batch, r)
		q.cs[k].InFlight++
		return true
	}
}

// flush submits the batches.
func (q *Queue) flush() {
	for _, c := range q.children {
		if len(c.batch) == 0 {
			continue
		}
		if c.attachment.begin(len(c.batch)) {
			c.inFlight += c.queue.Submit(c.batch) // accepts all: it is as deep as this queue
		} else { // it is being identified; the end of that stirs the queue
			for i := range c.batch {
				q.waiting = append(q.waiting, uint32(c.batch[i].Tag))
			}
		}
		clear(c.batch)
		c.batch = c.batch[:0]
	}
}

// Poll implements [backend.Queue].
func (q *Queue) Poll(rs []backend.Result) int {
	if q.inFlight == 0 || len(rs) == 0 {
		return 0
	}
	for {
		if n := q.collect(rs); n > 0 {
			return n
		}
		if !q.revive() {
			return 0
		}
	}
}

// collect returns the results that are available.
func (q *Queue) collect(rs []backend.Result) int {
	n := 0
	for ; n < len(rs) && len(q.done) > 0; n++ {
		last := len(q.done) - 1
		rs[n] = q.give(q.done[last], q.ns.sub.now())
		q.done = q.done[:last]
	}
	left := false
	for _, c := range q.children {
		if room := len(rs) - n; c.inFlight > 0 && room > 0 {
			k := c.queue.Poll(q.results[:min(room, len(q.results))])
			if k > 0 {
				n += q.take(c, q.results[:k], rs[n:])
			}
		}
		left = left || c.left && c.inFlight == 0
	}
	if left {
		q.sweep()
	}
	if n > 0 {
		q.tally.inFlight.Add(int64(-n))
	}
	return n
}

// take handles results of a path, and stores the final ones in rs.
func (q *Queue) take(c *child, from, rs []backend.Result) (n int) {
	now, p := q.ns.sub.now(), c.attachment.session.path
	c.inFlight -= len(from)
	c.attachment.ended(len(from))
	written := 0
	for k := range from {
		i := uint32(from[k].Tag)
		s := &q.slots[i]
		if s.err = from[k].Err; s.err == nil {
			p.measured(now - s.started)
			if isVolatile(s.Op, s.FUA) {
				written++
			}
		} else if s.err = c.attachment.weigh(&s.trial, s.err, safetyOf(s.Op), now); s.err == nil {
			q.waiting = append(q.waiting, i)
			q.next = 0
			continue
		}
		rs[n] = q.give(i, now)
		n++
	}
	q.ns.writes.acknowledged(c.attachment.cache, written)
	return n
}

// give ends a request and returns its result.
func (q *Queue) give(i uint32, now int64) backend.Result {
	s := &q.slots[i]
	if s.Op == backend.OpFlush {
		s.err = q.ns.writes.endFlush(s.flush, s.err)
	}
	if q.ns.sub.counts {
		q.tally.ended(s.Op, int(s.Length), now-s.began, s.err)
	}
	r := backend.Result{Tag: s.Tag, Err: s.err}
	s.Buf, s.err, s.last, s.lost = nil, nil, nil, nil
	q.idle = append(q.idle, i)
	q.inFlight--
	return r
}

// revive sends waiting requests for which there is a path again, and fails those that need not wait any longer. It
// reports whether there were any.
func (q *Queue) revive() bool {
	if len(q.waiting) == 0 {
		return false
	}
	if !q.stirred.Load() && q.next != 0 {
		if now := q.ns.sub.now(); now < q.next {
			q.wakeAt(now)
			return false
		}
	}
	now := q.prepare()
	hopeless, kept := q.table.hopeless(now), q.waiting[:0]
	q.next = never
	for _, i := range q.waiting {
		s := &q.slots[i]
		due := s.due()
		switch {
		case q.table.closed, now >= due && s.over(now):
			q.fail(i)
		case now < due:
			q.next = min(q.next, due)
			kept = append(kept, i)
		case q.send(i, now):
		case hopeless:
			q.fail(i)
		default:
			if s.deadline != 0 {
				q.next = min(q.next, s.deadline)
			}
			q.next = min(q.next, q.table.next(now))
			kept = append(kept, i)
		}
	}
	progress := len(kept) < len(q.waiting)
	q.waiting = kept
	q.flush()
	q.wakeAt(now)
	return progress
}

func (q *Queue) fail(i uint32) {
	s := &q.slots[i]
	s.err = q.table.failure(q.ns, s.last)
	q.done = append(q.done, i)
}

// wakeAt sets the timer that wakes a sleeping owner.
func (q *Queue) wakeAt(now int64) {
	if q.timer != nil && len(q.waiting) > 0 && q.next != never {
		q.timer.Reset(time.Duration(q.next - now))
	}
}

// waitStep is how long Wait sleeps if there is not exactly one path to wait for.
const waitStep = 100 * time.Microsecond

// Wait blocks until Poll may have results again. It runs the loop of the path if no other goroutine does.
func (q *Queue) Wait() error {
	if q.inFlight == 0 || len(q.done) > 0 {
		return nil
	}
	var only *child
	for _, c := range q.children {
		if c.inFlight == 0 {
			continue
		}
		if only != nil {
			only = nil
			break
		}
		only = c
	}
	if only == nil || len(q.waiting) > 0 {
		time.Sleep(waitStep)
		return nil
	}
	return only.queue.Wait()
}

// Idle implements [backend.Queue].
func (q *Queue) Idle() bool { return q.inFlight == 0 }

// Close implements [backend.Queue]. Requests that wait for a path are dropped.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.tally.inFlight.Store(0)
	q.ns.removeQueue(q)
	var first error
	for _, c := range q.children {
		if err := c.queue.Close(); err != nil && first == nil {
			first = err
		}
		c.attachment.dropped(c.inFlight) // not before Close has waited for them: see hold
	}
	q.children, q.inFlight = nil, 0
	if e := q.event.Load(); e != nil {
		if err := e.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
