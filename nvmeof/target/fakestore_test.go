package target

import (
	"bytes"
	"cmp"
	"sync"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// fakeStore is a store without leases whose operations complete when the test says so, or at once.
type fakeStore struct {
	info backend.Info

	mu     sync.Mutex
	size   int64 // if it differs from info's
	data   []byte
	hold   bool
	room   int // of a queue, if it is less than its depth
	err    error
	noCopy bool
	queues []*fakeStoreQueue
	seen   []backend.Request // without their buffers
}

func newFakeStore(size int64) *fakeStore {
	return &fakeStore{
		info: backend.Info{Size: size, BlockSize: 512, Alignment: 4096, Volatile: true, Deallocate: true, Compare: true},
		data: make([]byte, size),
	}
}

func (s *fakeStore) Info() backend.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	if s.size != 0 {
		info.Size = s.size
	}
	return info
}

func (s *fakeStore) Allocated() (int64, error) { return s.info.Size / 2, nil }
func (s *fakeStore) Close() error              { return nil }

func (s *fakeStore) NewQueue(depth int, notify func()) (backend.Queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &fakeStoreQueue{store: s, depth: depth, notify: notify}
	s.queues = append(s.queues, q)
	return q, nil
}

// set changes how operations complete from now on, including those that are held.
func (s *fakeStore) set(hold bool, err error) {
	s.mu.Lock()
	s.hold, s.err = hold, err
	queues := s.queues
	s.mu.Unlock()
	for _, q := range queues {
		q.notify()
	}
}

// ops returns the requests that were submitted since the last call.
func (s *fakeStore) ops() []backend.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.seen
	s.seen = nil
	return out
}

func (s *fakeStore) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.queues {
		n += len(q.taken)
	}
	return n
}

type fakeStoreQueue struct {
	store  *fakeStore
	depth  int
	notify func()
	taken  []backend.Request
	due    int // how many of taken complete although the store holds operations
	closed bool
}

// step completes the operations that the store has now, although it holds operations.
func (s *fakeStore) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		q.due = len(q.taken)
		q.notify()
	}
}

func (q *fakeStoreQueue) Submit(rs []backend.Request) int {
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(rs), cmp.Or(s.room, q.depth)-len(q.taken))
	for _, r := range rs[:n] {
		if len(r.Buf) > 0 && !aligned(r.Buf, s.info.Alignment) {
			panic("buffer is not aligned as the store requires")
		}
		q.taken = append(q.taken, r)
		r.Buf = nil
		s.seen = append(s.seen, r)
	}
	return n
}

func (q *fakeStoreQueue) Poll(rs []backend.Result) int {
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(rs), len(q.taken))
	if s.hold {
		n = min(n, q.due)
		q.due -= n
	}
	for i, r := range q.taken[:n] {
		if s.err == nil {
			switch r.Op {
			case backend.OpRead:
				copy(r.Buf, s.data[r.Offset:])
			case backend.OpWrite:
				copy(s.data[r.Offset:], r.Buf)
			case backend.OpCopy:
				if s.noCopy {
					rs[i] = backend.Result{Tag: r.Tag, Err: backend.ErrUnsupported}
					continue
				}
				copy(s.data[r.Offset:r.Offset+r.Length], s.data[r.From:])
			case backend.OpCompareAndWrite:
				expected, next, _ := r.Parts(&s.info)
				if there := s.data[r.Offset : r.Offset+r.Length]; !bytes.Equal(there, expected) {
					rs[i] = backend.Result{Tag: r.Tag, Err: backend.ErrMiscompare}
					continue
				} else {
					copy(there, next)
				}
			case backend.OpWriteZeroes, backend.OpDeallocate:
				clear(s.data[r.Offset : r.Offset+r.Length])
			}
		}
		rs[i] = backend.Result{Tag: r.Tag, Err: s.err}
	}
	q.taken = q.taken[n:]
	return n
}

func (q *fakeStoreQueue) Idle() bool { return len(q.taken) == 0 }

func (q *fakeStoreQueue) Close() error {
	if len(q.taken) > 0 {
		panic("queue closed with operations in flight")
	}
	q.closed = true
	return nil
}

// nullStore stores nothing, and allocates nothing.
type nullStore struct{ info backend.Info }

func newNullStore(size int64) nullStore {
	return nullStore{backend.Info{Size: size, BlockSize: 512, Alignment: 4096}}
}

func (s nullStore) Info() backend.Info        { return s.info }
func (s nullStore) Allocated() (int64, error) { return 0, nil }
func (s nullStore) Close() error              { return nil }

func (s nullStore) NewQueue(depth int, _ func()) (backend.Queue, error) {
	return &nullQueue{results: backend.NewResults(depth)}, nil
}

type nullQueue struct{ results backend.Results }

func (q *nullQueue) Submit(rs []backend.Request) int {
	for i := range rs {
		q.results.Push(backend.Result{Tag: rs[i].Tag})
	}
	return len(rs)
}

func (q *nullQueue) Poll(rs []backend.Result) int { return q.results.Drain(rs) }
func (q *nullQueue) Idle() bool                   { return q.results.Len() == 0 }
func (q *nullQueue) Close() error                 { return nil }

// quietLink records the response in a flag.
type quietLink struct {
	data              []byte
	answered, fetched bool
}

func (l *quietLink) Length() int                             { return len(l.data) }
func (l *quietLink) Wrong() capsule.Status                   { return 0 }
func (l *quietLink) InCapsule() []byte                       { return nil }
func (l *quietLink) Fetch([]rdmatransport.SGE)               { l.fetched = true }
func (l *quietLink) Movable() bool                           { return false }
func (l *quietLink) MoveData(rdmatransport.SGE) bool         { return false }
func (l *quietLink) Reading() bool                           { return l.fetched }
func (l *quietLink) Charge(int)                              {}
func (l *quietLink) Respond(capsule.Status, uint64)          { l.answered = true }
func (l *quietLink) RespondData([]rdmatransport.SGE, uint64) { l.answered = true }
