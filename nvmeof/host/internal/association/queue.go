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

// A Queue is one queue of an association, connected or about to be.
type Queue struct {
	ID     capsule.QID
	Depth  int
	Shard  *shard.Shard
	Pool   *Pool             // of the shard
	Fabric *fabric.HostQueue // the loop's
	Urgent fabric.Source     // of what has an entry of the admin queue for itself: Keep Alive and fabrics commands; the loop's
	OnEnd  func()            // called in the loop when all commands are back; the loop's

	Association *Association
	ended       chan struct{} // closed when the queue has given everything back
}

// NewQueue makes a queue of an association. cfg.Ending and cfg.Ended are the association's.
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

// Connect makes the RDMA connection of the queue pair by a function of the caller's. On an
// error the queue has ended.
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

// lose is called in the loop before the requests come back: whoever gets one finds the
// association lost.
func (q *Queue) lose(err error) {
	q.Association.loseQueue(q, fmt.Errorf("queue %d: %w", q.ID, err))
}

// end is called in the loop when the queue has given all requests back.
func (q *Queue) end(error) {
	if q.OnEnd != nil {
		q.OnEnd()
	}
	close(q.ended)
}

// Explain prefers the reason for which the controller was lost to what the queue saw of
// it.
func (q *Queue) Explain(err error) error {
	if err == nil {
		return nil
	}
	if why := q.Association.Err(); why != nil {
		return why
	}
	return err
}

// Lost is why a queue that has ended did.
func (q *Queue) Lost() error {
	if why := q.Association.Err(); why != nil {
		return why
	}
	return q.Fabric.Err()
}

// Disconnect ends the queue; Ended reports when that is done.
func (q *Queue) Disconnect() { q.Shard.Do(q.Fabric.Disconnect) }

// Ended is closed when the queue has given everything back.
func (q *Queue) Ended() <-chan struct{} { return q.ended }

// Free frees the memory of a queue that has ended, or was never connected.
func (q *Queue) Free() error { return q.Fabric.Free() }

// CancelRequest ends a command early, in the loop: it takes back what was not sent, and has the
// controller abort what was, as shows in the command's own completion.
func (q *Queue) CancelRequest(r *fabric.Request) {
	cid, sent := q.Fabric.Cancel(r)
	if sent && r.Command.Opcode != capsule.OpcodeFabrics {
		q.Association.Aborts.abort(Abort{Queue: q, CID: cid})
	}
}

// Execute sends a command and waits for its completion, whatever its status. Data, if
// any, goes the way that the opcode says. When ctx ends first the command is aborted,
// but not waited for, nor is it when the association is lost, as lost says; nil: never.
func (q *Queue) Execute(ctx context.Context, lost <-chan struct{}, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	t := NewTask(q, nil, []capsule.Command{cmd}, data)
	var source *fabric.Source
	if cmd.Opcode == capsule.OpcodeFabrics {
		source, t.halves[0].request.Urgency = &q.Urgent, fabric.Urgent // a shutdown waits for no command that hangs
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
