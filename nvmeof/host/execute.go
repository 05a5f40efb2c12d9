package host

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A task is one command of the control plane, or the two halves of a fused one. It
// has memory of its own, so that its caller may stop waiting for it at any time. It
// belongs to its queue's loop from begin until done is closed.
type task struct {
	link   *link
	ns     *Namespace // whose commands they are; nil: of none that can go
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

// page is what data in a buffer begins at a multiple of.
const page = shard.PageSize

func newTask(l *link, cmds []capsule.Command, data ...[]byte) *task {
	t := &task{link: l, halves: make([]half, len(cmds)), done: make(chan struct{})}
	t.waiter.Ready = t.send
	at := 0
	for i := range t.halves {
		h := &t.halves[i]
		h.at = at
		if i < len(data) {
			h.data = append([]byte(nil), data[i]...)
			at += (len(h.data) + page - 1) &^ (page - 1)
		}
		h.request = fabric.Request{Command: cmds[i], Length: len(h.data), Whole: whole(&cmds[i], l.qid == 0), Done: t.finish}
	}
	return t
}

// whole reports whether a command that succeeds brings as much data as it asks for. Of a
// log page there may be less.
func whole(cmd *capsule.Command, admin bool) bool {
	if admin {
		return cmd.Opcode == capsule.Opcode(capsule.AdminIdentify)
	}
	return cmd.Opcode == capsule.Opcode(capsule.IORead)
}

// execute sends a command and waits for its completion. Data, if any, goes the
// way that the opcode says. A completion with an error status returns both. When
// ctx ends first the command stays outstanding.
func (l *link) execute(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	t := newTask(l, []capsule.Command{cmd}, data)
	if !l.shard.Do(t.begin) {
		return capsule.Completion{}, ErrClosed
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		l.shard.Do(t.cancel)
		return capsule.Completion{}, ctx.Err()
	}
	copy(data, t.halves[0].data)
	if t.err != nil {
		return capsule.Completion{}, t.err
	}
	c := t.halves[0].request.Completion
	return c, statusError(&cmd, l.qid == 0, c)
}

// await carries out a task of an I/O queue. When ctx ends before, it is aborted, and
// await returns when it has its answer, since it may take effect until then: with
// the error of ctx, unless it was too late to stop it.
func (t *task) await(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !t.link.shard.Do(t.begin) {
		return ErrClosed
	}
	select {
	case <-t.done:
		return t.link.explain(t.err)
	case <-ctx.Done():
		t.link.shard.Do(t.cancel)
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
func (t *task) begin() {
	p, size := t.link.pool, 0
	for i := range t.halves {
		if h := &t.halves[i]; len(h.data) > 0 {
			size = h.at + len(h.data)
		}
	}
	if size == 0 {
		t.send(shard.Buffer{})
		return
	}
	if t.link.queue.State() >= fabric.StateFailing {
		t.end(t.link.queue.Err())
		return
	}
	if b, ok := p.arena.Alloc(size); ok {
		t.send(b)
		return
	}
	p.arena.Wait(&t.waiter, size)
}

func (t *task) send(b shard.Buffer) {
	p := t.link.pool
	t.buffer = b
	if t.ns != nil {
		if err := t.ns.barred(); err != nil {
			t.end(err)
			return
		}
	}
	for i := range t.halves {
		h := &t.halves[i]
		if len(h.data) > 0 {
			copy(b.Bytes()[h.at:], h.data)
			h.request.Memory, h.request.Offset = p.memory, p.offset(b)+h.at
		}
		if err := t.link.queue.Submit(&h.request); err != nil {
			t.end(err) // the first: a queue does not end between two
			return
		}
		t.left++
	}
}

func (t *task) finish(r *fabric.Request) {
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

func (t *task) end(err error) {
	if t.buffer.Valid() {
		t.link.pool.release(t.buffer)
		t.buffer = shard.Buffer{}
	}
	t.ended, t.err = true, err
	close(t.done)
}

// cancel ends the task early, in the loop: as [lane.cancel] does.
func (t *task) cancel() {
	if t.waiter.Waiting() {
		t.link.pool.arena.Cancel(&t.waiter)
		t.end(fabric.ErrCanceled)
		return
	}
	for i := range t.halves {
		h := &t.halves[i]
		if t.ended {
			return
		}
		cid, sent := t.link.queue.Cancel(&h.request)
		if sent && h.request.Command.Opcode != capsule.OpcodeFabrics {
			t.link.controller.abort(t.link, cid)
		}
	}
}
