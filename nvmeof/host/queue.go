package host

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/yield"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Info implements [backend.Store].
func (n *Namespace) Info() backend.Info {
	id := n.Identify()
	info := backend.Info{
		Size: n.Size(), BlockSize: n.BlockSize(), Alignment: 1,
		Volatile:   n.controller.identify.VWC&1 != 0,
		ReadOnly:   id.NSATTR&1 != 0,
		Deallocate: n.controller.limits.trimOK,
	}
	if id.NSFEAT&(1<<4) != 0 {
		info.Optimal = (int(id.NPWG) + 1) << n.io.Shift
	}
	return info
}

// Allocated implements [backend.Store]. It reads the current NUSE from the controller.
func (n *Namespace) Allocated() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), allocatedTime)
	defer cancel()
	b, err := n.controller.IdentifyData(ctx, n.io.ID, capsule.Identify{CNS: capsule.CNSNamespace})
	if err != nil {
		return 0, err
	}
	id, err := capsule.DecodeIdentifyNamespace(b)
	return int64(min(id.NUSE, uint64(n.Size()>>n.io.Shift))) << n.io.Shift, err
}

const allocatedTime = 10 * time.Second

// Close implements [backend.Store]. It fails while a queue is open. The controller stays connected.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queues > 0 {
		return fmt.Errorf("namespace %d has %d open queues", n.io.ID, n.queues)
	}
	n.closed = true
	return nil
}

// NewQueue implements [backend.Store]; see [Namespace.OpenQueue].
func (n *Namespace) NewQueue(depth int, notify func()) (backend.Queue, error) {
	return n.OpenQueue(depth, notify)
}

// A Queue executes requests of one goroutine at a time on one I/O queue of the controller. It implements
// [backend.Queue]: Submit takes requests in slices, Poll returns results; neither allocates or blocks. Data in the
// controller's Buffers is transferred without a copy. A goroutine that polls runs the I/O queue's event loop meanwhile.
type Queue struct {
	ns       *Namespace
	ioQueue  *operation.IOQueue
	shard    *shard.Shard
	share    *sharing
	slots    []slot
	idle     []uint32 // slots, owned by the caller
	refused  []uint32 // slots whose request was not sent, owned by the caller
	inFlight int      // number of slots that are not idle

	submitted ring // slots passed to the loop
	finished  ring // slots passed back to the caller
	message   shard.Message
	queued    atomic.Bool // message is in the shard's mailbox

	wake      func()       // calls notify, or sets the event; may be nil
	event     *shard.Event // for Watchable; nil until Descriptor is called
	driven    bool         // Poll runs the loop although wake is set
	armed     atomic.Bool  // notify must be called for the next result
	limit     timeLimit
	waiter    *shard.Waiter
	parked    bool        // the waiter is waiting; owned by the loop
	waitTimer shard.Timer // ends a long wait; owned by the loop
	yield     yield.Loop
	closed    bool
}

// A slot is one request of a Queue.
type slot struct {
	operation.Op
	tag      uint64
	index    uint32
	timeout  time.Duration // 0: none
	deadline int64         // on the shard's clock, while the operation is live; 0: none; owned by the loop
}

const maxQueueDepth = 1 << 16

// OpenQueue opens a queue with at most depth requests in flight. notify may be nil; [backend.Store] says when it is
// called.
func (n *Namespace) OpenQueue(depth int, notify func()) (*Queue, error) {
	if depth < 1 || depth > maxQueueDepth {
		return nil, fmt.Errorf("queue of %d requests: want 1 to %d", depth, maxQueueDepth)
	}
	if err := n.controller.Err(); err == ErrClosed {
		return nil, fmt.Errorf("%w: %w", err, backend.ErrClosed)
	} else if err != nil {
		return nil, err
	}
	if err := n.io.Bar.Err(); err != nil {
		return nil, err
	}
	if !n.addQueue() {
		return nil, backend.ErrClosed
	}
	ioq := n.controller.nextIOQueue()
	q := &Queue{ns: n, ioQueue: ioq, shard: ioq.Queue.Shard, share: n.controller.host.share(ioq), slots: make([]slot, depth), wake: notify}
	for i := range q.slots {
		s := &q.slots[i]
		s.Op.Queue, s.Namespace, s.index = ioq, &n.io, uint32(i)
		s.Done = func(*operation.Op) { q.finish(s) }
		q.idle = append(q.idle, s.index)
	}
	q.refused = make([]uint32, 0, depth)
	q.submitted.init(depth)
	q.finished.init(depth)
	q.message.Func = func() {
		q.queued.Store(false)
		q.start()
	}
	q.limit.timer.Func = q.checkDeadlines
	q.waiter = ioq.Queue.Shard.NewWaiter(q.park)
	q.waitTimer.Func = q.unpark
	q.share.queues.Add(1)
	return q, nil
}

func (n *Namespace) addQueue() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.queues++
	}
	return !n.closed
}

// Submit implements [backend.Queue].
func (q *Queue) Submit(rs []backend.Request) int {
	if q.closed {
		return 0
	}
	n := 0
	for ; n < len(rs) && len(q.idle) > 0; n++ {
		last := len(q.idle) - 1
		s := &q.slots[q.idle[last]]
		q.idle = q.idle[:last]
		q.inFlight++
		if err := q.fill(s, &rs[n]); err != nil {
			s.Err = err
			q.refused = append(q.refused, s.index)
			continue
		}
		q.submitted.push(s.index)
	}
	if n > 0 {
		q.shard.Expect(n)
		q.hand()
	}
	return n
}

// hand passes submitted requests to the loop.
func (q *Queue) hand() {
	if q.shard.TryHold() {
		q.start()
		if q.share.unpolled.Load() == 0 {
			q.shard.Send()
		}
		q.shard.Release()
		return
	}
	if !q.queued.Swap(true) {
		q.shard.Post(&q.message)
	}
}

// fill converts a request to an operation.
func (q *Queue) fill(s *slot, r *backend.Request) error {
	s.tag, s.FUA, s.Free = r.Tag, r.FUA, r.Deallocate && q.ns.frees()
	s.Stop, s.timeout = nil, q.limit.timeout
	if err := q.ns.io.Bar.Err(); err != nil {
		return err
	}
	info := backend.Info{Size: q.ns.Size(), BlockSize: q.ns.BlockSize(), Alignment: 1}
	if err := info.Check(r); err != nil {
		return err
	}
	length := r.Length
	switch r.Op {
	case backend.OpRead:
		s.Kind = operation.Read
	case backend.OpWrite:
		s.Kind = operation.Write
	case backend.OpFlush:
		s.Kind, length = operation.Flush, 1
	case backend.OpWriteZeroes:
		if s.Kind = operation.Zeroes; !q.ns.controller.limits.zeroesOK {
			return ErrUnsupported
		}
	case backend.OpDeallocate:
		if s.Kind = operation.Trim; !q.ns.controller.limits.trimOK {
			length = 0 // only a hint: complete it without a command
		}
	}
	s.SetRange(r.Buf, r.Offset, length)
	return nil
}

// start begins the submitted operations. It runs in the loop.
func (q *Queue) start() {
	for {
		i, ok := q.submitted.pop()
		if !ok {
			return
		}
		s := &q.slots[i]
		if s.deadline = 0; s.timeout > 0 {
			q.setDeadline(s)
		}
		q.ioQueue.Begin(&s.Op)
	}
}

// finish handles the end of an operation. It runs in the loop.
func (q *Queue) finish(s *slot) {
	q.share.unpolled.Add(1)
	q.finished.push(s.index)
	q.unpark()
	if q.armed.Load() && q.armed.Swap(false) {
		q.wake()
	}
}

// Poll implements [backend.Queue].
func (q *Queue) Poll(rs []backend.Result) int {
	n := q.reap(rs)
	if n > 0 || q.inFlight == 0 || len(rs) == 0 {
		return n
	}
	if q.wake != nil && !q.driven {
		return q.pollAndArm(rs)
	}
	if q.share.patient() {
		return 0
	}
	if q.shard.TryHold() {
		q.shard.Turn()
		q.shard.Release()
	} else {
		q.shard.AskHold()
	}
	if n = q.reap(rs); n == 0 {
		q.yield.Turn(false)
	}
	return n
}

// pollAndArm is for a caller that will sleep until it is notified; the shard's resident goroutine runs the loop
// meanwhile.
func (q *Queue) pollAndArm(rs []backend.Result) int {
	q.armed.Store(true)
	n := q.reap(rs)
	if n > 0 {
		q.armed.Store(false)
		return n
	}
	q.shard.Attend()
	return 0
}

// reap returns the results that are available.
func (q *Queue) reap(rs []backend.Result) int {
	n, taken := 0, int32(0)
	for ; n < len(rs); n++ {
		var i uint32
		if last := len(q.refused) - 1; last >= 0 {
			i, q.refused = q.refused[last], q.refused[:last]
		} else {
			var ok bool
			if i, ok = q.finished.pop(); !ok {
				break
			}
			taken++
		}
		s := &q.slots[i]
		rs[n] = backend.Result{Tag: s.tag, Err: operationError(s.Err)}
		s.Forget()
		q.idle = append(q.idle, i)
		q.inFlight--
	}
	if taken > 0 {
		q.share.unpolled.Add(-taken)
	}
	if n > 0 {
		q.shard.Expect(-n)
	}
	return n
}

// waitLimit bounds a Wait, so that its caller can check for a reason to stop. One timer covers many waits, the last of
// which may therefore end early.
const waitLimit = 100 * time.Millisecond

// Wait blocks until Poll has a result, nothing is in flight, or at most a tenth of a second has passed. It runs the
// loop if no other goroutine does.
func (q *Queue) Wait() error {
	if q.inFlight == 0 || len(q.refused) > 0 || !q.finished.empty() {
		return nil
	}
	if err := q.waiter.Await(); err != nil {
		return ErrClosed
	}
	return nil
}

// park begins a wait. It runs in the loop.
func (q *Queue) park() {
	q.start()
	if !q.finished.empty() {
		q.waiter.Done()
		return
	}
	q.parked = true
	if !q.waitTimer.Running() {
		q.shard.SetTimer(&q.waitTimer, waitLimit)
	}
}

// unpark ends a wait. It runs in the loop.
func (q *Queue) unpark() {
	if q.parked {
		q.parked = false
		q.waiter.Done()
	}
}

// Idle implements [backend.Queue].
func (q *Queue) Idle() bool { return q.inFlight == 0 }

// Close implements [backend.Queue].
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	q.ns.mu.Lock()
	q.ns.queues--
	q.ns.mu.Unlock()
	q.armed.Store(false)
	defer q.share.queues.Add(-1)
	var rs [16]backend.Result
	for q.inFlight > 0 {
		if err := q.Wait(); err != nil {
			return errors.Join(errors.New("requests of the queue are lost"), err)
		}
		q.reap(rs[:])
	}
	return q.closeEvent()
}

// A ring passes slots from one goroutine to another without a lock. It cannot overflow, since it has room for all
// slots.
type ring struct {
	slots []uint32
	mask  uint32
	head  atomic.Uint32 // written by the reader
	tail  atomic.Uint32 // written by the writer
}

func (r *ring) init(n int) {
	r.slots = make([]uint32, 1<<bits.Len(uint(n-1)))
	r.mask = uint32(len(r.slots) - 1)
}

func (r *ring) push(v uint32) {
	tail := r.tail.Load()
	r.slots[tail&r.mask] = v
	r.tail.Store(tail + 1)
}

func (r *ring) pop() (uint32, bool) {
	head := r.head.Load()
	if head == r.tail.Load() {
		return 0, false
	}
	v := r.slots[head&r.mask]
	r.head.Store(head + 1)
	return v, true
}

func (r *ring) empty() bool { return r.head.Load() == r.tail.Load() }
