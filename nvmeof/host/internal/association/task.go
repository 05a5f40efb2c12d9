package association

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Task is one command of the control plane, or the two commands of a fused operation. It has its own memory, so that
// its caller may stop waiting for it at any time. It is owned by its queue's loop from Begin until done is closed.
type Task struct {
	Ended func() // called in the loop when the task has ended after Begin; may be nil

	queue  *Queue
	bar    *Bar // of the commands' namespace; nil if they cannot be blocked
	halves []half
	left   int // number of commands outstanding
	buffer shard.Buffer
	waiter shard.BufferWaiter
	share  *shard.Share
	begun  bool // Begin was called
	ended  bool
	done   chan struct{}
	err    error // why there are no completions
}

// A half is a command of a task. Most tasks have only one.
type half struct {
	request fabric.Request
	data    []byte // copy of the caller's data
	at      int    // offset in the buffer
}

// Page is the alignment of data in a buffer.
const Page = shard.PageSize

// NewTask returns a task of commands, with the data of each. bar may be nil.
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

// Data returns the data of command i.
func (t *Task) Data(i int) []byte { return t.halves[i].data }

// Command and Completion return those of command i, once Await has succeeded.
func (t *Task) Command(i int) *capsule.Command      { return &t.halves[i].request.Command }
func (t *Task) Completion(i int) capsule.Completion { return t.halves[i].request.Completion }

// whole reports whether a successful command must transfer as much data as it requests. A log page may be shorter.
func whole(cmd *capsule.Command, admin bool) bool {
	if admin {
		return cmd.Opcode == capsule.Opcode(capsule.AdminIdentify)
	}
	return cmd.Opcode == capsule.Opcode(capsule.IORead)
}

// Await executes a task of an I/O queue with functions for its loop: begin calls Begin or Fail, at once or later, and
// cancel calls Cancel or Fail. If ctx ends first, the task is canceled, and Await returns when it has completed, since
// it may take effect until then. The error is then that of ctx, unless the task completed nevertheless, or the queue
// was lost, so that the task may still take effect.
func (t *Task) Await(ctx context.Context, begin, cancel func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !t.queue.Shard.Do(begin) {
		return ErrClosed
	}
	select {
	case <-t.done:
		return t.queue.Explain(t.err)
	case <-ctx.Done():
		t.queue.Shard.Do(cancel)
		<-t.done
	}
	if t.err != nil && t.err != fabric.ErrCanceled {
		return t.queue.Explain(t.err)
	}
	for i := range t.halves {
		if t.err != nil || t.halves[i].request.Completion.Status.Code() == capsule.StatusAbortRequested {
			return ctx.Err()
		}
	}
	return nil
}

// Commands returns the number of commands.
func (t *Task) Commands() int { return len(t.halves) }

// Begin starts a task. It must be called in the loop. The buffer is taken from share, and the commands are sent from
// source; nil selects those of the queue.
func (t *Task) Begin(source *fabric.Source, share *shard.Share) {
	t.begun, t.share = true, share
	for i := range t.halves {
		t.halves[i].request.Source = source
	}
	t.begin()
}

// Fail ends a task that was not begun.
func (t *Task) Fail(err error) { t.end(err) }

// begin allocates a buffer for the data.
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
	if b, ok := p.Alloc(t.share, &t.waiter, size); ok {
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
			t.end(err) // only the first can fail: a queue does not end between two of them
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
	if t.begun && t.Ended != nil {
		t.Ended()
	}
	close(t.done)
}

// Cancel ends early a task that was begun. It must be called in the loop.
func (t *Task) Cancel() {
	if t.waiter.Waiting() {
		t.waiter.Cancel()
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
