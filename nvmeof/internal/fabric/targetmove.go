package fabric

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// ErrMoved ends a queue whose connection another process continues.
var ErrMoved = errors.New("another process continues the connection")

// A MovedQueue is the state of a queue for transfer to another process.
type MovedQueue struct {
	Connection []byte // the provider's state, see [rdmatransport.MovableQueuePair]
	Depth      int    // that of TargetConfig
	InCapsule  int    // that of TargetConfig
	Reads      int    // maximum RDMA READs in flight
	Entries    int    // see SetEntries
	Head       uint16 // SQHD of the last response
	NoFlow     bool   // see DisableFlowControl
	// Capsules are the unanswered commands in the order in which they begin: each 64 bytes and the data that came with
	// it.
	Capsules [][]byte
}

// Quiet reports whether the connection can move: the host has all responses, and the only commands in progress are
// those that the handler owns and those that wait to begin. See Dispatcher.Hold.
func (q *TargetQueue) Quiet() bool {
	m, ok := q.qp.(rdmatransport.MovableQueuePair)
	return ok && q.state == StateLive && q.send.room == q.send.depth && q.responses.First() == nil && q.fetches.First() == nil &&
		q.dead.First() == nil && len(q.recvs) == 0 && m.Idle()
}

// Export ends a quiet queue with ErrMoved and returns the state that [TargetQueue.Adopt] continues. begun are the
// commands that the handler owns, in the order in which they are to begin again; none of them may have had any effect.
func (q *TargetQueue) Export(begun []*Command) (MovedQueue, error) {
	if q.cfg.Shared != nil {
		return MovedQueue{}, errors.New("fabric: receives that queues share cannot move")
	}
	m := MovedQueue{
		Depth: q.cfg.Depth, InCapsule: q.cfg.InCapsule, Reads: q.reads.depth, Entries: q.entries, Head: q.sqhd, NoFlow: q.noFlow,
	}
	for _, c := range begun {
		m.Capsules = append(m.Capsules, q.capsule(arrival{c.recv, c.bytes}))
	}
	for i := range q.backlog.count {
		m.Capsules = append(m.Capsules, q.capsule(q.backlog.ring[(q.backlog.head+i)%len(q.backlog.ring)]))
	}
	var err error
	if m.Connection, err = q.qp.(rdmatransport.MovableQueuePair).Export(); err == nil {
		q.fail(ErrMoved)
	}
	return m, err
}

// capsule returns a copy of a received capsule.
func (q *TargetQueue) capsule(a arrival) []byte {
	data := q.arrivals.data(int(a.recv))
	b := append([]byte(nil), q.arrivals.command(int(a.recv))...)
	return append(b, data[:min(int(a.data), len(data))]...)
}

// Adopt continues a queue of another process; it replaces Accept. Commands wait until Continue. After an error the
// queue is unusable.
func (q *TargetQueue) Adopt(m *MovedQueue) error {
	cfg := &q.cfg
	d, ok := cfg.Domain.(rdmatransport.AdoptingDomain)
	if !ok {
		return errors.New("fabric: the device cannot continue connections of another process")
	}
	if err := m.check(cfg); err != nil {
		return err
	}
	cfg.Shard.Attach(&q.slot, (*targetConsumer)(q))
	qp, err := d.Adopt(q.pairConfig(), m.Connection)
	if err != nil {
		q.slot.Detach()
		return err
	}
	q.qp = qp
	q.mover, _ = qp.(rdmatransport.MovingQueuePair)
	for i := range cfg.Depth {
		if i < len(m.Capsules) {
			q.refill(i, m.Capsules[i])
		} else {
			q.collectRecv(i)
		}
	}
	if err = q.postRecvs(); err != nil {
		q.backlog = backlog{ring: q.backlog.ring}
		q.slot.Detach()
		return errors.Join(err, qp.Close())
	}
	q.entries, q.sqhd, q.noFlow = m.Entries, m.Head, m.NoFlow
	q.reads.init(q, max(1, m.Reads))
	q.watchProgress()
	q.state = StateLive
	return nil
}

// refill stores a capsule in a receive as if it had arrived there.
func (q *TargetQueue) refill(i int, b []byte) {
	copy(q.memory.command(i), b)
	copy(q.memory.data(i), b[capsule.CommandSize:])
	q.backlog.push(arrival{int32(i), int32(len(b) - capsule.CommandSize)})
}

// Continue begins the commands with which the queue was adopted.
func (q *TargetQueue) Continue() { q.proceed() }

// check compares the other process's configuration with this one's.
func (m *MovedQueue) check(cfg *TargetConfig) error {
	switch {
	case cfg.Shared != nil:
		return errors.New("fabric: receives that queues share cannot move")
	case m.Depth != cfg.Depth || m.InCapsule != cfg.InCapsule:
		return fmt.Errorf("fabric: the queue had %d entries and %d bytes of data in a capsule, and would have %d and %d", m.Depth, m.InCapsule, cfg.Depth, cfg.InCapsule)
	case len(m.Capsules) > cfg.Depth || m.Entries < 1 || m.Entries > cfg.Depth || int(m.Head) >= m.Entries || m.Reads < 0 || m.Reads > cfg.Attrs.MaxReadsOut:
		return errors.New("fabric: the record of a queue contradicts itself")
	}
	for _, b := range m.Capsules {
		if len(b) < capsule.CommandSize || len(b) > capsule.CommandSize+m.InCapsule {
			return fmt.Errorf("fabric: a command of %d bytes in the record of a queue", len(b))
		}
	}
	return nil
}
