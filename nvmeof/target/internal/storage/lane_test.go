package storage

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// armQueue counts how often its descriptor was armed.
type armQueue struct {
	backend.Queue
	arms  int
	ready bool
}

func (q *armQueue) Descriptor() int { return -1 }
func (q *armQueue) Arm() bool       { q.arms++; return !q.ready }

// TestLaneArms: a lane whose store has a descriptor arms it before a sleep while
// it has users, and once more after that, which clears it.
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

// TestLaneRoom: a lane takes memory for as many operations as there are at once, up to its
// depth, and no tag is given twice.
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
