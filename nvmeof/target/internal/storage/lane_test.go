package storage

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// armQueue counts the calls of Arm.
type armQueue struct {
	backend.Queue
	arms  int
	ready bool
}

func (q *armQueue) Descriptor() int { return -1 }
func (q *armQueue) Arm() bool       { q.arms++; return !q.ready }

// TestLaneArms: a lane whose store has a descriptor arms it before a sleep while it has users, and once more after
// that, which clears it.
func TestLaneArms(t *testing.T) {
	q := &armQueue{}
	l := &Lane{watch: q, vacant: []uint32{0}}
	step := func(name string, sleep bool, arms int) {
		t.Helper()
		if got := l.Arm(); got != sleep || q.arms != arms {
			t.Errorf("%s: may sleep %v, armed %d times; want %v, %d", name, got, q.arms, sleep, arms)
		}
	}
	step("never used", true, 0)
	l.users = 1
	step("in use", true, 1)
	q.ready = true
	step("results are there", false, 2)
	q.ready = false
	l.users = 0
	step("used no more", true, 3)
	step("still so", true, 3)
	l.users = 1
	l.Put(&Operation{})
	step("not handed over", false, 3)
}

// oddQueue accepts another number of requests than it was given.
type oddQueue struct {
	backend.Queue
	taken int
}

func (q *oddQueue) Submit(rs []backend.Request) int { return q.taken }

// TestLaneBlames: a store that violates its contract, so that an operation of another host could get the result,
// causes a panic that names it.
func TestLaneBlames(t *testing.T) {
	lane := func() *Lane {
		v := &Volume{Name: "disk 1", store: &slowStore{}}
		l := &Lane{Volume: v, lanes: new(lanes), depth: 4, flight: make([]*Operation, 4)}
		l.flight[1] = &Operation{Request: backend.Request{Tag: 7<<32 | 1}}
		return l
	}
	blamed := func(name, want string, f func()) {
		t.Helper()
		defer func() {
			t.Helper()
			if got, _ := recover().(string); !strings.Contains(got, want) || !strings.Contains(got, "disk 1: the store (*storage.slowStore)") {
				t.Errorf("%s: panic %q", name, got)
			}
		}()
		f()
	}
	for name, tag := range map[string]uint64{"beyond all": 7<<32 | 4, "not in flight": 7<<32 | 2, "a second time": 6<<32 | 1, "made up": 1 << 31} {
		blamed(name, "no request in flight has", func() { lane().take(&backend.Result{Tag: tag}) })
	}
	for _, taken := range []int{-1, 2} {
		l := lane()
		l.queue, l.vacant = &oddQueue{taken: taken}, []uint32{0, 2, 3}
		op := new(Operation)
		l.submit.Push(op, &op.link)
		blamed("Submit", "of 1 requests", func() { l.pushPicked() })
	}
}

// TestVolumeChecks: a store with an impossible description is refused.
func TestVolumeChecks(t *testing.T) {
	for alignment, ok := range map[int]bool{0: true, 1: true, 512: true, 4096: true, -1: false, 3: false, 8192: false} {
		s := &fixedStore{backend.Info{Size: 1 << 20, BlockSize: 512, Alignment: alignment}}
		if _, err := newVolume(nil, s, "disk 1"); (err == nil) != ok {
			t.Errorf("alignment %d: %v", alignment, err)
		}
	}
}

// fixedStore is a store of which only the description is used.
type fixedStore struct{ info backend.Info }

func (s *fixedStore) Info() backend.Info                          { return s.info }
func (s *fixedStore) Allocated() (int64, error)                   { return 0, nil }
func (s *fixedStore) NewQueue(int, func()) (backend.Queue, error) { return nil, nil }
func (s *fixedStore) Close() error                                { return nil }

// TestLaneRoom: a lane allocates memory for as many operations as are concurrent, up to its depth, and never
// reuses a tag.
func TestLaneRoom(t *testing.T) {
	for _, depth := range []int{1, 7, 8, 9, 100} {
		l := &Lane{depth: depth}
		taken := map[uint32]bool{}
		for l.room() {
			if len(l.flight) > depth || len(l.flight) > max(firstTags, 2*(len(taken)+1)) {
				t.Errorf("depth %d: room for %d with %d operations", depth, len(l.flight), len(taken))
			}
			last := len(l.vacant) - 1
			tag := l.vacant[last]
			l.vacant = l.vacant[:last]
			if taken[tag] || int(tag) >= len(l.flight) {
				t.Fatalf("depth %d: tag %d", depth, tag)
			}
			taken[tag] = true
		}
		if len(taken) != depth {
			t.Errorf("depth %d: room for %d operations", depth, len(taken))
		}
	}
}
