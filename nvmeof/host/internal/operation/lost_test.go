package operation

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// TestLossSaysMore: an operation of which one command was refused and another lost
// has an unknown outcome, whichever came first.
func TestLossSaysMore(t *testing.T) {
	lost := errors.New("lost for the test")
	a := association.New()
	a.Lose(lost)
	q := &IOQueue{Queue: &association.Queue{Association: a}}
	o := &Op{lane: &Lane{queue: q, inFlight: 2}, inFlight: 2, length: 1, pos: 1, Done: func(*Op) {}}
	o.fail(&Refusal{})
	c := &chunk{op: o}
	c.request.Err = lost
	q.finish(c)
	if o.Err != lost {
		t.Errorf("the operation fails with %v", o.Err)
	}
}
