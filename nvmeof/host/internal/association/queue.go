package association

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Queue is one queue of an association. It need not be connected yet.
type Queue struct {
	ID     capsule.QID
	Depth  int
	Shard  *shard.Shard
	Pool   *Pool             // of the shard
	Fabric *fabric.HostQueue // owned by the loop
	Urgent fabric.Source     // of commands with a reserved admin queue entry: Keep Alive, fabrics commands; owned by the loop
	OnEnd  func()            // called in the loop when all commands have completed; owned by the loop

	Association *Association
	ended       chan struct{} // closed when the queue has returned all requests
}

// NewQueue returns a queue of an association. It sets cfg.Ending and cfg.Ended itself.
func (a *Association) NewQueue(id capsule.QID, pool *Pool, cfg fabric.HostConfig) (*Queue, error) {
	q := &Queue{ID: id, Depth: cfg.Depth, Shard: cfg.Shard, Pool: pool, Association: a, ended: make(chan struct{})}
	cfg.Ending, cfg.Ended = q.lose, q.end
	var err error
	if q.Fabric, err = fabric.NewHost(cfg); err != nil {
		return nil, err
	}
	q.Urgent.Open(q.Fabric)
	if id == 0 {
		a.admin, a.Aborts.admin = q, q
		a.Aborts.source.Open(q.Fabric)
	}
	return q, nil
}

// Connect opens the queue pair and calls connect to make its RDMA connection. If it returns an error, the queue has
// ended.
func (q *Queue) Connect(connect func(rdmatransport.QueuePair) error) error {
	var qp rdmatransport.QueuePair
	var err error
	if callErr := q.Shard.Call(func() { qp, err = q.Fabric.Open() }); callErr != nil || err != nil {
		return errors.Join(callErr, err)
	}
	if err := connect(qp); err != nil {
		if q.Shard.Do(func() { q.Fabric.Fail(err) }) {
			<-q.ended
		}
		return err
	}
	return q.Shard.Call(q.Fabric.Established)
}

// lose is called in the loop before the requests are returned, so that the association is already lost when their
// callers see the error.
func (q *Queue) lose(err error) {
	q.Association.loseQueue(q, fmt.Errorf("queue %d: %w", q.ID, err))
}

// end is called in the loop when the queue has returned all requests.
func (q *Queue) end(error) {
	if q.OnEnd != nil {
		q.OnEnd()
	}
	close(q.ended)
}

// Explain replaces the error of a command by the reason why the controller was lost, if it was.
func (q *Queue) Explain(err error) error {
	if err == nil {
		return nil
	}
	if why := q.Association.Err(); why != nil {
		return why
	}
	return err
}

// Lost returns the reason why a queue has ended.
func (q *Queue) Lost() error {
	if why := q.Association.Err(); why != nil {
		return why
	}
	return q.Fabric.Err()
}

// Disconnect starts to end the queue; Ended reports when it has ended.
func (q *Queue) Disconnect() { q.Shard.Do(q.Fabric.Disconnect) }

// Ended returns a channel that is closed when the queue has returned all requests.
func (q *Queue) Ended() <-chan struct{} { return q.ended }

// Free frees the memory of a queue that has ended, or was never connected.
func (q *Queue) Free() error { return q.Fabric.Free() }

// CancelRequest ends a command early; it must be called in the loop. A command that has not been sent is withdrawn. One
// that has been sent is aborted at the controller, and then ends with its own completion.
func (q *Queue) CancelRequest(r *fabric.Request) {
	cid, sent := q.Fabric.Cancel(r)
	if sent && r.Command.Opcode != capsule.OpcodeFabrics {
		q.Association.Aborts.abort(Abort{Queue: q, CID: cid})
	}
}

// Execute sends a command and waits for its completion, whatever its status. The opcode says in which direction data,
// if any, is transferred. If ctx ends first, the command is aborted, and Execute returns without waiting for it. It
// does not wait either once lost is closed; lost may be nil.
func (q *Queue) Execute(ctx context.Context, lost <-chan struct{}, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	t := NewTask(q, nil, []capsule.Command{cmd}, data)
	var source *fabric.Source
	if cmd.Opcode == capsule.OpcodeFabrics {
		source, t.halves[0].request.Urgency = &q.Urgent, fabric.Urgent // so that a shutdown does not wait for commands that hang
	}
	if !q.Shard.Do(func() { t.Begin(source, nil) }) {
		return capsule.Completion{}, ErrClosed
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		q.Shard.Do(t.Cancel)
		return capsule.Completion{}, ctx.Err()
	case <-lost:
		return capsule.Completion{}, q.Association.Err()
	}
	copy(data, t.Data(0))
	if t.err != nil {
		return capsule.Completion{}, t.err
	}
	return t.Completion(0), nil
}
