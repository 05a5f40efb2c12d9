package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// SharedConfig configures receives for the queues of one shard.
type SharedConfig struct {
	Shard     *shard.Shard         // required
	Domain    rdmatransport.Domain // required
	Receives  int                  // required
	InCapsule int                  // that of the queues
}

// SharedReceives are receives and their memory, shared by the controllers' queues of one shard. Like a queue, they
// belong to the shard.
type SharedReceives struct {
	cfg    SharedConfig
	slot   shard.Slot
	queue  rdmatransport.SharedReceiveQueue
	memory targetMemory
	takers map[rdmatransport.QPN]*TargetQueue
	recvs  []rdmatransport.RecvWR // to be posted
	posted int                    // and not completed
}

// Memory returns how many bytes the receives map and register.
func (c *SharedConfig) Memory() int { return c.layout().Memory() }

// layout returns the configuration of a queue with the same layout, except for the responses.
func (c *SharedConfig) layout() *TargetConfig {
	return &TargetConfig{Domain: c.Domain, Depth: c.Receives, InCapsule: c.InCapsule}
}

// NewSharedReceives maps and registers the memory.
func NewSharedReceives(cfg SharedConfig) (*SharedReceives, error) {
	if cfg.Shard == nil || cfg.Domain == nil || cfg.Receives < 1 || cfg.InCapsule < 0 || cfg.InCapsule%16 != 0 {
		return nil, errors.New("fabric: SharedConfig lacks a required field")
	}
	s := &SharedReceives{cfg: cfg, takers: map[rdmatransport.QPN]*TargetQueue{}}
	if err := s.memory.init(cfg.layout()); err != nil {
		return nil, err
	}
	s.recvs = make([]rdmatransport.RecvWR, 0, cfg.Receives)
	return s, nil
}

// Open creates the shared receive queue and posts all receives. The shard's owner calls it.
func (s *SharedReceives) Open() (err error) {
	s.queue, err = s.cfg.Domain.NewSharedReceiveQueue(rdmatransport.SRQConfig{
		CQ: s.cfg.Shard.CQ(), Depth: s.cfg.Receives, MaxSGE: 2,
	})
	if err != nil {
		return err
	}
	s.cfg.Shard.Attach(&s.slot, (*sharedConsumer)(s))
	for i := range s.cfg.Receives {
		s.give(i)
	}
	return s.post()
}

// Close frees the shared receive queue once all queues that use it are closed. The shard's owner calls it.
func (s *SharedReceives) Close() error {
	if s.queue == nil {
		return nil
	}
	s.slot.Detach()
	return s.queue.Close()
}

// Free unmaps the memory, after Close.
func (s *SharedReceives) Free() error { return s.memory.close() }

// leave removes a queue pair from those to which capsules are passed.
func (s *SharedReceives) leave(qp rdmatransport.QueuePair) {
	if s != nil {
		delete(s.takers, qp.QPN())
	}
}

// give collects receive i, to be posted in this turn.
func (s *SharedReceives) give(i int) {
	s.recvs = append(s.recvs, rdmatransport.RecvWR{
		ID: s.slot.ID(makeTag(tagRecv, int32(i))), SGL: s.memory.recvSGL(i),
	})
	s.slot.Flush()
}

func (s *SharedReceives) post() error {
	if len(s.recvs) == 0 {
		return nil
	}
	err := s.queue.PostRecv(s.recvs)
	if err == nil {
		s.posted += len(s.recvs)
	}
	s.recvs = s.recvs[:0]
	return err
}

// sharedConsumer has the methods of SharedReceives that the shard calls.
type sharedConsumer SharedReceives

// Complete passes a capsule to the queue on which it arrived. If that queue has ended, the receive is posted again.
func (c *sharedConsumer) Complete(done *rdmatransport.Completion, low uint32) {
	s, i := (*SharedReceives)(c), tag(low).index()
	s.posted--
	q := s.takers[done.QPN]
	switch {
	case q == nil || q.state != StateLive:
		s.give(i)
	case done.Status != rdmatransport.StatusSuccess:
		s.give(i)
		q.failTransfer(done)
	default:
		q.received(done, i)
	}
}

func (c *sharedConsumer) Retry() {}

// Flush posts the receives that were given back in this turn and that no queue has posted before its responses. It
// fails only if the device fails, which ends the queues too.
func (c *sharedConsumer) Flush() { _ = (*SharedReceives)(c).post() }
