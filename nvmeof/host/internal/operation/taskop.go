package operation

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// A taskOp is a task that takes its turn among the operations on a namespace.
type taskOp struct {
	Op
	task   *association.Task
	chunks []*chunk // entries that it occupies
	sent   bool
}

// Execute executes commands of the caller, one or the two of a fused operation, in turn with the other operations on
// the namespace, and waits as [association.Task.Await] does. bar may be nil.
func (q *IOQueue) Execute(ctx context.Context, n *Namespace, bar *association.Bar, cmds []capsule.Command, data ...[]byte) (*association.Task, error) {
	t := association.NewTask(q.Queue, bar, cmds, data...)
	e := &taskOp{task: t}
	e.Op = Op{Queue: q, Namespace: n, Kind: other, length: 1, task: e}
	e.Done = func(o *Op) {
		switch {
		case e.sent:
		case q.dead:
			t.Fail(q.Queue.Lost())
		default:
			t.Fail(o.Err)
		}
	}
	t.Ended = e.ended
	err := t.Await(ctx, func() { q.Begin(&e.Op) }, e.cancel)
	if unsent, is := e.Err.(*Unsent); is && err != nil {
		err = unsent // more specific than the loss
	}
	return t, err
}

// cancel ends the task early. It runs in the loop.
func (e *taskOp) cancel() {
	if e.sent {
		e.task.Cancel()
	} else {
		e.Queue.Cancel(&e.Op, fabric.ErrCanceled)
	}
}

// sendTask begins the task of o, for which there are entries.
func (q *IOQueue) sendTask(o *Op) {
	e, l := o.task, o.lane
	for range e.task.Commands() {
		e.chunks = append(e.chunks, q.take())
	}
	q.quota.add(l, len(e.chunks))
	e.sent = true
	o.pos, o.inFlight = o.length, 1
	e.task.Begin(&l.source, &l.share)
}

// ended returns the entries.
func (e *taskOp) ended() {
	q := e.Queue
	for _, c := range e.chunks {
		q.keep(c)
	}
	q.vacate(e.lane, len(e.chunks))
	q.ended(&e.Op)
}
