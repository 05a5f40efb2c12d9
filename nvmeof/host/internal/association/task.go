package association

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Task is one command of the control plane, or the two halves of a fused one. It
// has memory of its own, so that its caller may stop waiting for it at any time. It
// belongs to its queue's loop from begin until done is closed.
type Task struct {
	queue  *Queue
	bar    *Bar // of the namespace whose commands they are; nil: of none that can go
	halves []half
	left   int // outstanding
	buffer shard.Buffer
	waiter shard.BufferWaiter
	ended  bool
	done   chan struct{}
	err    error // why there are no completions
}

// A half is a command of a task. Most have only one.
type half struct {
	request fabric.Request
	data    []byte // a copy of the caller's
	at      int    // where it lies in the buffer
}

// Page is what data in a buffer begins at a multiple of.
const Page = shard.PageSize

// NewTask makes a task of commands, with the data of each; bar may be nil.
func NewTask(q *Queue, bar *Bar, cmds []capsule.Command, data ...[]byte) *Task {
	t := &Task{queue: q, bar: bar, halves: make([]half, len(cmds)), done: make(chan struct{})}
	t.waiter.Ready = t.send
	at := 0
	for i := range t.halves {
		h := &t.halves[i]
		h.at = at
		if i < len(data) {
			h.data = append([]byte(nil), data[i]...)
			at += (len(h.data) + Page - 1) &^ (Page - 1)
		}
		h.request = fabric.Request{Command: cmds[i], Length: len(h.data), Whole: whole(&cmds[i], q.ID == 0), Done: t.finish}
	}
	return t
}

// Data is what the command i brought.
func (t *Task) Data(i int) []byte { return t.halves[i].data }

// Command and Completion are those of the command i, when Await has succeeded.
func (t *Task) Command(i int) *capsule.Command      { return &t.halves[i].request.Command }
func (t *Task) Completion(i int) capsule.Completion { return t.halves[i].request.Completion }

// whole reports whether a command that succeeds brings as much data as it requests. Of a
// log page there may be less.
func whole(cmd *capsule.Command, admin bool) bool {
	if admin {
		return cmd.Opcode == capsule.Opcode(capsule.AdminIdentify)
	}
	return cmd.Opcode == capsule.Opcode(capsule.IORead)
}

// Await carries out a task of an I/O queue. When ctx ends before, it is aborted, and
// Await returns when it has its answer, since it may take effect until then: with
// the error of ctx, unless it was too late to stop it.
func (t *Task) Await(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !t.queue.Shard.Do(t.begin) {
		return ErrClosed
	}
	select {
	case <-t.done:
		return t.queue.Explain(t.err)
	case <-ctx.Done():
		t.queue.Shard.Do(t.cancel)
		<-t.done
	}
	for i := range t.halves {
		if t.err != nil || t.halves[i].request.Completion.Status.Code() == capsule.StatusAbortRequested {
			return ctx.Err()
		}
	}
	return nil
}

// begin finds a buffer for the data.
func (t *Task) begin() {
	p, size := t.queue.Pool, 0
	for i := range t.halves {
		if h := &t.halves[i]; len(h.data) > 0 {
			size = h.at + len(h.data)
		}
	}
	if size == 0 {
		t.send(shard.Buffer{})
		return
	}
	if t.queue.Fabric.State() >= fabric.StateFailing {
		t.end(t.queue.Fabric.Err())
		return
	}
	if b, ok := p.Alloc(&t.waiter, size); ok {
		t.send(b)
	}
}

func (t *Task) send(b shard.Buffer) {
	p := t.queue.Pool
	t.buffer = b
	if t.bar != nil {
		if err := t.bar.Err(); err != nil {
			t.end(err)
			return
		}
	}
	for i := range t.halves {
		h := &t.halves[i]
		if len(h.data) > 0 {
			copy(b.Bytes()[h.at:], h.data)
			h.request.Memory, h.request.Offset = p.Memory, p.Offset(b)+h.at
		}
		if err := t.queue.Fabric.Submit(&h.request); err != nil {
			t.end(err) // the first: a queue does not end between two
			return
		}
		t.left++
	}
}

func (t *Task) finish(r *fabric.Request) {
	t.left--
	if r.Err != nil && t.err == nil {
		t.err = r.Err
	}
	if t.left > 0 {
		return
	}
	for i := range t.halves {
		if h := &t.halves[i]; t.err == nil && len(h.data) > 0 {
			copy(h.data, t.buffer.Bytes()[h.at:])
		}
	}
	t.end(t.err)
}

func (t *Task) end(err error) {
	if t.buffer.Valid() {
		t.queue.Pool.Release(t.buffer)
		t.buffer = shard.Buffer{}
	}
	t.ended, t.err = true, err
	close(t.done)
}

// cancel ends the task early, in the loop.
func (t *Task) cancel() {
	if t.waiter.Waiting() {
		t.queue.Pool.Arena.Cancel(&t.waiter)
		t.end(fabric.ErrCanceled)
		return
	}
	for i := range t.halves {
		h := &t.halves[i]
		if t.ended {
			return
		}
		t.queue.CancelRequest(&h.request)
	}
}
