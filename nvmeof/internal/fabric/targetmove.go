package fabric

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// ErrMoved is why a queue has ended whose connection another process continues.
var ErrMoved = errors.New("another process continues the connection")

// A MovedQueue is a queue on its way to another process.
type MovedQueue struct {
	Connection []byte // the provider's, see [rdmatransport.MovableQueuePair]
	Depth      int    // as TargetConfig has it
	InCapsule  int    // likewise
	Reads      int    // RDMA READs that may be in flight
	Entries    int    // see SetEntries
	Head       uint16 // SQHD of the last response
	NoFlow     bool   // see DisableFlowControl
	// Capsules are the commands that have not been answered, in the order in which they begin:
	// 64 bytes each, and the data that came with it.
	Capsules [][]byte
}

// Quiet reports whether nothing is under way but commands that the handler has and those that
// wait to begin: the host has all responses, and the connection can move. See Dispatcher.Hold.
func (q *TargetQueue) Quiet() bool {
	m, ok := q.qp.(rdmatransport.MovableQueuePair)
	return ok && q.state == StateLive && q.send.room == q.send.depth && q.responses.First() == nil && q.fetches.First() == nil &&
		q.dead.First() == nil && len(q.recvs) == 0 && m.Idle()
}

// Export ends a queue that is quiet with ErrMoved, and returns what [TargetQueue.Adopt]
// continues. Begun are the commands that the handler has, in the order in which they are to
// begin again: nothing of them has been done.
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

// capsule is a copy of what has arrived in a receive.
func (q *TargetQueue) capsule(a arrival) []byte {
	data := q.arrivals.data(int(a.recv))
	b := append([]byte(nil), q.arrivals.command(int(a.recv))...)
	return append(b, data[:min(int(a.data), len(data))]...)
}

// Adopt continues a queue of another process, in place of Accept. Its commands wait, until
// Continue. On an error the queue is unusable.
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

// refill has a capsule arrive in a receive.
func (q *TargetQueue) refill(i int, b []byte) {
	copy(q.memory.command(i), b)
	copy(q.memory.data(i), b[capsule.CommandSize:])
	q.backlog.push(arrival{int32(i), int32(len(b) - capsule.CommandSize)})
}

// Continue lets the commands begin with which the queue was adopted.
func (q *TargetQueue) Continue() { q.proceed() }

// check compares what another process had with what this one has.
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
