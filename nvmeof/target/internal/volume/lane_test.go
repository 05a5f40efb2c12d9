package volume

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
