package backendtest_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
)

func newFaulty(t *testing.T) *backendtest.Faulty {
	t.Helper()
	s, err := memory.New(memory.Config{Size: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return backendtest.NewFaulty(s)
}

// Without a rule it behaves like any other store.
func TestFaultyConforms(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Store { return newFaulty(t) })
}

// A queue and its results.
type queue struct {
	t     *testing.T
	q     backend.Queue
	wakes int
}

func newQueue(t *testing.T, s backend.Store) *queue {
	t.Helper()
	q := &queue{t: t}
	inner, err := s.NewQueue(8, func() { q.wakes++ })
	if err != nil {
		t.Fatal(err)
	}
	q.q = inner
	t.Cleanup(func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func (q *queue) submit(tag uint64, op backend.Op, offset int64, fill byte) []byte {
	q.t.Helper()
	r := backend.Request{Tag: tag, Op: op, Offset: offset}
	if op != backend.OpFlush {
		r.Length = 4096
	}
	if op == backend.OpRead || op == backend.OpWrite {
		r.Buf = slices.Repeat([]byte{fill}, 4096)
	}
	if q.q.Submit([]backend.Request{r}) != 1 {
		q.t.Fatal("Submit took nothing")
	}
	return r.Buf
}

// want fails unless exactly these requests have results, with the same error.
func (q *queue) want(err error, tags ...uint64) {
	q.t.Helper()
	var got [8]backend.Result
	n := q.q.Poll(got[:])
	if n != len(tags) {
		q.t.Fatalf("results %v, want of %v", got[:n], tags)
	}
	for i, r := range got[:n] {
		if r.Tag != tags[i] || !errors.Is(r.Err, err) {
			q.t.Errorf("result %+v, want of %d: %v", r, tags[i], err)
		}
	}
}

func TestRules(t *testing.T) {
	errA, errB := errors.New("a"), errors.New("b")
	s := newFaulty(t)
	q := newQueue(t, s)
	a := s.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead, backend.OpFlush}, Skip: 1, Count: 2, Err: errA})
	b := s.Inject(backendtest.Rule{Offset: 8192, Length: 4096, Err: errB})
	steps := []struct {
		op     backend.Op
		offset int64
		want   error
	}{
		{backend.OpRead, 0, nil},
		{backend.OpWrite, 0, nil},
		{backend.OpWrite, 8192, errB},
		{backend.OpRead, 8192, errA},
		{backend.OpFlush, 8192, errA},
		{backend.OpFlush, 8192, nil},
		{backend.OpRead, 8192, errB},
		{backend.OpDeallocate, 4096, nil},
		{backend.OpWriteZeroes, 12288, nil},
	}
	for i, step := range steps {
		q.submit(uint64(i), step.op, step.offset, 1)
		q.want(step.want, uint64(i))
	}
	if a.Hits() != 2 || b.Hits() != 2 {
		t.Errorf("%d and %d hits, want 2 and 2", a.Hits(), b.Hits())
	}
	b.Release()
	got := q.submit(90, backend.OpRead, 8192, 9)
	q.want(nil, 90)
	if got[0] != 0 {
		t.Error("a write that failed was carried out")
	}
}

func TestHoldRequest(t *testing.T) {
	s := newFaulty(t)
	q := newQueue(t, s)
	f := s.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Count: 1, Hold: backendtest.HoldRequest})
	q.submit(1, backend.OpWrite, 0, 1)
	q.submit(2, backend.OpWrite, 0, 2)
	q.want(nil, 2)
	if q.q.Idle() || f.Hits() != 1 {
		t.Errorf("idle %v, %d hits", q.q.Idle(), f.Hits())
	}
	f.Release()
	if q.wakes == 0 {
		t.Error("not notified of the release")
	}
	q.want(nil, 1)
	got := q.submit(3, backend.OpRead, 0, 0)
	q.want(nil, 3)
	if got[0] != 1 {
		t.Error("the held write did not take effect after the other")
	}
}

func TestHoldResult(t *testing.T) {
	late := errors.New("late")
	s := newFaulty(t)
	q := newQueue(t, s)
	f := s.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldResult, Err: late})
	q.submit(1, backend.OpWrite, 0, 1)
	q.want(nil)
	got := q.submit(2, backend.OpRead, 0, 0)
	q.want(nil, 2)
	if got[0] != 1 {
		t.Error("the write was not carried out")
	}
	f.Release()
	q.want(late, 1)
	if !q.q.Idle() {
		t.Error("not idle")
	}
}

// What a rule holds is dropped with its queue, and a later release does no harm.
func TestCloseWithHeld(t *testing.T) {
	s := newFaulty(t)
	f := s.Inject(backendtest.Rule{Hold: backendtest.HoldRequest})
	q := newQueue(t, s)
	q.submit(1, backend.OpWrite, 0, 1)
	q.want(nil)
	if err := q.q.Close(); err != nil {
		t.Fatal(err)
	}
	f.Release()
	q = newQueue(t, s)
	got := q.submit(2, backend.OpRead, 0, 9)
	q.want(nil, 2)
	if got[0] != 0 {
		t.Error("a write of a closed queue took effect")
	}
}
