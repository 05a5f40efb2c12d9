package host

import (
	"context"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

// A task is one command of the control plane. It has memory of its own, so that
// its caller may stop waiting for it at any time.
type task struct {
	link    *link
	request fabric.Request
	data    []byte // a copy of the caller's
	buffer  shard.Buffer
	waiter  shard.BufferWaiter
	done    chan struct{}
	err     error
}

// execute sends a command and waits for its completion. Data, if any, goes the
// way that the opcode says. A completion with an error status returns both. When
// ctx ends first the command stays outstanding.
func (l *link) execute(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	t := &task{link: l, data: append([]byte(nil), data...), done: make(chan struct{})}
	t.request = fabric.Request{Command: cmd, Length: len(data), Done: t.finish}
	t.waiter.Ready = t.send
	if !l.shard.Do(t.begin) {
		return capsule.Completion{}, ErrClosed
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return capsule.Completion{}, ctx.Err()
	}
	copy(data, t.data)
	if t.err != nil {
		return capsule.Completion{}, t.err
	}
	c := t.request.Completion
	return c, statusError(&cmd, l.qid == 0, c)
}

// begin finds a buffer for the data.
func (t *task) begin() {
	p := t.link.pool
	if len(t.data) == 0 {
		t.send(shard.Buffer{})
		return
	}
	if t.link.queue.State() >= fabric.StateFailing {
		t.end(t.link.queue.Err())
		return
	}
	if b, ok := p.arena.Alloc(len(t.data)); ok {
		t.send(b)
		return
	}
	p.arena.Wait(&t.waiter, len(t.data))
}

func (t *task) send(b shard.Buffer) {
	p := t.link.pool
	t.buffer = b
	if b.Valid() {
		copy(b.Bytes(), t.data)
		t.request.Memory, t.request.Offset = p.memory, p.offset(b)
	}
	if err := t.link.queue.Submit(&t.request); err != nil {
		t.end(err)
	}
}

func (t *task) finish(r *fabric.Request) {
	if r.Err == nil && t.buffer.Valid() {
		copy(t.data, t.buffer.Bytes())
	}
	t.end(r.Err)
}

func (t *task) end(err error) {
	if t.buffer.Valid() {
		t.link.pool.release(t.buffer)
		t.buffer = shard.Buffer{}
	}
	t.err = err
	close(t.done)
}
