package memory

import (
	"bytes"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

// Long ranges are zeroed and freed in steps, so that other requests are served in between. One call costs about as much
// as zeroing zeroStep bytes, or frees one whole region.
const (
	zeroStep = 256 << 10
	scanStep = 1 << 30 // bytes examined to find what is in use
	runCost  = 4 << 10 // of a part, in addition to its bytes
	scanCost = scanStep / (128 << 10)
)

// A queue executes requests inline; those that it cannot execute yet wait.
type queue struct {
	store    *Store
	depth    int
	inFlight int // taken, and the result not yet polled
	results  backend.Results
	waiting  []task        // in the order of submission
	order    backend.Order // of waiting
	waiter   *stripe.Waiter
	notify   func()
	budget   int64 // for the steps of long requests during this call
	again    bool  // a request waits only for the next Poll
	closed   bool
}

// A task is a request in progress.
type task struct {
	backend.Request
	done int64 // bytes completed
	err  error // its result, when it is finished
}

func (t *task) exclusive() bool { return t.Op != backend.OpRead }

func newQueue(s *Store, depth int, notify func()) *queue {
	if notify == nil {
		notify = func() {}
	}
	return &queue{
		store:   s,
		depth:   depth,
		results: backend.NewResults(depth),
		waiter:  s.blocks.Join(notify),
		notify:  notify,
	}
}

// Submit implements [backend.Queue].
func (q *queue) Submit(rs []backend.Request) int {
	if q.closed {
		return 0
	}
	n := min(len(rs), q.depth-q.inFlight)
	q.inFlight += n
	q.budget = zeroStep
	for i := range rs[:n] {
		q.take(&rs[i])
	}
	return n
}

func (q *queue) take(r *backend.Request) {
	if err := q.store.info.Check(r); err != nil {
		q.results.Push(backend.Result{Tag: r.Tag, Err: err})
		return
	}
	t := task{Request: *r}
	if !q.order.Conflicts(t.Offset, t.Length, t.exclusive()) && q.try(&t) {
		q.results.Push(backend.Result{Tag: t.Tag, Err: t.err})
		return
	}
	q.order.Add(t.Offset, t.Length, t.exclusive())
	q.waiting = append(q.waiting, t)
}

// Poll implements [backend.Queue].
func (q *queue) Poll(rs []backend.Result) int {
	if len(q.waiting) == 0 {
		return q.drain(rs)
	}
	q.retry()
	if n := q.drain(rs); n > 0 || len(q.waiting) == 0 {
		return n
	}
	// Try once more after arming: for what is refused now, a release will call notify.
	q.waiter.Arm()
	q.retry()
	n := q.drain(rs)
	if n == 0 && q.again {
		q.notify()
	}
	return n
}

func (q *queue) drain(rs []backend.Result) int {
	n := q.results.Drain(rs)
	q.inFlight -= n
	return n
}

// retry tries everything that waits, in order; conflicting requests do not overtake each other.
func (q *queue) retry() {
	q.budget, q.again = zeroStep, false
	q.order.Reset()
	kept := 0
	for i := range q.waiting {
		t := &q.waiting[i]
		if !q.order.Conflicts(t.Offset, t.Length, t.exclusive()) && q.try(t) {
			q.results.Push(backend.Result{Tag: t.Tag, Err: t.err})
			continue
		}
		q.order.Add(t.Offset, t.Length, t.exclusive())
		if kept != i {
			q.waiting[kept] = *t
		}
		kept++
	}
	clear(q.waiting[kept:]) // drops the references to buffers
	q.waiting = q.waiting[:kept]
}

// try executes a request or its next part, and reports whether the request is finished.
func (q *queue) try(t *task) bool {
	switch t.Op {
	case backend.OpRead, backend.OpWrite:
		return q.transfer(t)
	case backend.OpWriteZeroes, backend.OpDeallocate:
		return q.step(t)
	case backend.OpCompareAndWrite:
		return q.compareAndWrite(t)
	}
	return true // OpFlush: RAM is as durable as it gets
}

func (q *queue) transfer(t *task) bool {
	s := q.store
	if !q.hold(t.Offset, t.Length, t.exclusive()) {
		return false
	}
	if t.Op == backend.OpRead {
		s.read(t.Buf, t.Offset)
	} else {
		s.used.set(t.Offset, t.Length)
		copy(s.memory[t.Offset:], t.Buf)
	}
	s.blocks.Release(t.Offset, t.Length, t.exclusive())
	return true
}

// read copies the content at an offset. Unlike in an anonymous mapping, reading a page of a file populates it, so units
// that are not in use are not read.
func (s *Store) read(b []byte, offset int64) {
	if s.pool != nil && !s.used.any(offset, int64(len(b))) {
		clear(b)
		return
	}
	copy(b, s.memory[offset:])
}

func (q *queue) compareAndWrite(t *task) bool {
	s := q.store
	if !q.hold(t.Offset, t.Length, true) {
		return false
	}
	expected, next, _ := t.Parts(&s.info)
	if there := s.memory[t.Offset : t.Offset+t.Length]; bytes.Equal(there, expected) {
		s.used.set(t.Offset, t.Length)
		copy(there, next)
	} else {
		t.err = backend.ErrMiscompare
	}
	s.blocks.Release(t.Offset, t.Length, true)
	return true
}

// step zeroes or frees the next used parts of a range. It and the users of the rest of the range do not wait for each
// other.
func (q *queue) step(t *task) bool {
	free := t.Op == backend.OpDeallocate || t.Deallocate
	for t.done < t.Length {
		if q.budget <= 0 {
			q.again = true
			return false
		}
		from := t.Offset + t.done
		at, n := q.store.next(from, t.Length-t.done, free)
		t.done = at - t.Offset
		q.budget -= runCost + (at-from)/scanCost
		if n == 0 {
			continue
		}
		if !q.hold(at, n, true) {
			return false
		}
		if free {
			q.store.free(at, n)
		} else {
			q.store.zero(at, n)
		}
		q.store.blocks.Release(at, n, true)
		t.done += n
		q.budget -= n
	}
	return true
}

func (q *queue) hold(offset, length int64, exclusive bool) bool {
	out := q.store.blocks.Try(offset, length, exclusive)
	q.again = q.again || out == stripe.Yielded
	return out == stripe.Taken
}

// Idle implements [backend.Queue].
func (q *queue) Idle() bool { return q.inFlight == 0 }

// Close implements [backend.Queue]. Between calls, only long ranges are partly executed; their rest is dropped.
func (q *queue) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	q.waiting, q.inFlight = nil, 0
	q.waiter.Leave()
	q.store.queueClosed()
	return nil
}
