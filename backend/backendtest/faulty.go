package backendtest

import (
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Hold is when a [Rule] keeps requests.
type Hold uint8

const (
	HoldNot     Hold = iota
	HoldRequest      // before it is carried out: the store hangs
	HoldResult       // after: its completion is late
)

// A Rule says which requests misbehave, and how.
type Rule struct {
	Ops []backend.Op // empty: all

	// Requests that touch this range, in bytes. Length 0: anywhere. A flush
	// touches nothing.
	Offset, Length int64

	Skip  int // so many matching requests are let through first
	Count int // then so many misbehave; 0: all

	// Err is the result. Unless the rule holds results, the request is not
	// carried out.
	Err error
	// Hold keeps the request or its result until Fault.Release.
	Hold Hold
}

func (r *Rule) matches(req *backend.Request) bool {
	if len(r.Ops) > 0 && !slices.Contains(r.Ops, req.Op) {
		return false
	}
	if r.Length == 0 {
		return true
	}
	return req.Op != backend.OpFlush && req.Offset < r.Offset+r.Length && r.Offset < req.Offset+req.Length
}

// Faulty is a store that misbehaves where a rule says so. It is no
// [backend.Leaser], whatever it wraps, so that nothing passes by the rules.
type Faulty struct {
	backend.Store

	mu     sync.Mutex // of the rules and all that they hold
	faults []*Fault
}

// NewFaulty wraps a store, which it closes with itself.
func NewFaulty(s backend.Store) *Faulty { return &Faulty{Store: s} }

// A Fault is a rule in force.
type Fault struct {
	store    *Faulty
	rule     Rule
	seen     int // matching requests
	hits     int
	released bool
	queues   []*faultyQueue // that have something held by this
}

// Inject puts a rule in force, behind those that are: of several that match a
// request, the oldest applies.
func (f *Faulty) Inject(r Rule) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := &Fault{store: f, rule: r}
	f.faults = append(f.faults, fault)
	return fault
}

// find returns the fault that applies to a request and counts it.
func (f *Faulty) find(r *backend.Request) *Fault {
	for _, fault := range f.faults {
		if !fault.rule.matches(r) {
			continue
		}
		n := fault.seen
		fault.seen++
		if n < fault.rule.Skip || fault.rule.Count > 0 && n >= fault.rule.Skip+fault.rule.Count {
			continue
		}
		fault.hits++
		return fault
	}
	return nil
}

// Hits is how many requests the rule has applied to.
func (f *Fault) Hits() int {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.hits
}

// Release releases everything that the rule holds, and removes the rule.
func (f *Fault) Release() {
	f.store.mu.Lock()
	f.released = true
	f.store.faults = slices.DeleteFunc(f.store.faults, func(o *Fault) bool { return o == f })
	queues := f.queues
	f.queues = nil
	f.store.mu.Unlock()
	for _, q := range queues {
		q.notify()
	}
}

// NewQueue implements [backend.Store].
func (f *Faulty) NewQueue(depth int, notify func()) (backend.Queue, error) {
	if notify == nil {
		notify = func() {}
	}
	inner, err := f.Store.NewQueue(depth, notify)
	if err != nil {
		return nil, err
	}
	q := &faultyQueue{
		store:  f,
		inner:  inner,
		notify: notify,
		slots:  make([]faultySlot, depth),
		got:    make([]backend.Result, depth),
		free:   make([]int, 0, depth),
	}
	q.results = backend.NewResults(depth)
	for i := range depth {
		q.free = append(q.free, i)
	}
	return q, nil
}

// A faultyQueue gives the inner queue's requests tags of its own.
type faultyQueue struct {
	store   *Faulty
	inner   backend.Queue
	notify  func()
	slots   []faultySlot
	free    []int
	held    []int // slots
	results backend.Results
	got     []backend.Result
	one     [1]backend.Request
	flying  int // taken, and the result not yet polled
	closed  bool
}

type faultySlot struct {
	req    backend.Request
	fault  *Fault // nil: none
	result error
	done   bool // by the inner queue
}

// ThreadBound implements [backend.ThreadBound], as the inner queue does.
func (q *faultyQueue) ThreadBound() bool {
	inner, ok := q.inner.(backend.ThreadBound)
	return ok && inner.ThreadBound()
}

// Release implements [backend.Releaser], as the inner queue does.
func (q *faultyQueue) Release() {
	if inner, ok := q.inner.(backend.Releaser); ok {
		inner.Release()
	}
}

// Submit implements [backend.Queue].
func (q *faultyQueue) Submit(rs []backend.Request) int {
	if q.closed {
		return 0
	}
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	n := min(len(rs), len(q.slots)-q.flying)
	for i := range rs[:n] {
		q.take(rs[i])
	}
	q.flying += n
	return n
}

func (q *faultyQueue) take(r backend.Request) {
	i := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	s := &q.slots[i]
	*s = faultySlot{req: r, fault: q.store.find(&r)}
	switch {
	case s.fault == nil || s.fault.rule.Hold == HoldResult:
		q.pass(i)
	case s.fault.rule.Hold == HoldRequest:
		q.hold(i)
	default:
		q.finish(i, s.fault.rule.Err)
	}
}

// pass gives a request to the inner queue, which has room for as many.
func (q *faultyQueue) pass(i int) {
	q.one[0] = q.slots[i].req
	q.one[0].Tag = uint64(i)
	if q.inner.Submit(q.one[:]) != 1 {
		panic("backendtest: a queue took less than its depth")
	}
}

func (q *faultyQueue) hold(i int) {
	q.held = append(q.held, i)
	f := q.slots[i].fault
	if !slices.Contains(f.queues, q) {
		f.queues = append(f.queues, q)
	}
}

func (q *faultyQueue) finish(i int, err error) {
	q.results.Push(backend.Result{Tag: q.slots[i].req.Tag, Err: err})
	q.slots[i] = faultySlot{}
	q.free = append(q.free, i)
}

// Poll implements [backend.Queue].
func (q *faultyQueue) Poll(rs []backend.Result) int {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.letGo()
	// Also the inner queue's Poll is to find nothing before the owner sleeps.
	for n := q.inner.Poll(q.got); n > 0; n = q.inner.Poll(q.got) {
		for _, r := range q.got[:n] {
			q.done(int(r.Tag), r.Err)
		}
	}
	n := q.results.Drain(rs)
	q.flying -= n
	return n
}

func (q *faultyQueue) done(i int, err error) {
	s := &q.slots[i]
	if s.fault == nil || s.fault.rule.Hold != HoldResult {
		q.finish(i, err)
		return
	}
	if s.fault.rule.Err != nil {
		err = s.fault.rule.Err
	}
	if s.fault.released {
		q.finish(i, err)
		return
	}
	s.done, s.result = true, err
	q.hold(i)
}

// letGo continues what a released fault held, in order.
func (q *faultyQueue) letGo() {
	held := q.held
	q.held = q.held[:0]
	for _, i := range held {
		switch s := &q.slots[i]; {
		case !s.fault.released:
			q.held = append(q.held, i)
		case s.done:
			q.finish(i, s.result)
		case s.fault.rule.Err != nil:
			q.finish(i, s.fault.rule.Err)
		default:
			q.pass(i)
		}
	}
}

// Idle implements [backend.Queue].
func (q *faultyQueue) Idle() bool { return q.flying == 0 }

// Close implements [backend.Queue]. What is held is dropped.
func (q *faultyQueue) Close() error {
	q.closed = true
	q.flying, q.held = 0, nil
	return q.inner.Close()
}
