package rdmatest

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// sharedReceiveQueue implements rdmatransport.SharedReceiveQueue.
type sharedReceiveQueue struct {
	domain *domain
	cq     *completionQueue
	maxSGE int
	recv   queue[rdmatransport.RecvWR]
	users  []*queuePair
	closed bool
}

func (d *domain) NewSharedReceiveQueue(cfg rdmatransport.SRQConfig) (rdmatransport.SharedReceiveQueue, error) {
	cq, ok := cfg.CQ.(*completionQueue)
	if !ok || cq.device != d.device {
		return nil, errors.New("loopback: completion queue of another device")
	}
	d.device.net.mu.Lock()
	closed := d.closed || d.device.closed
	d.device.net.mu.Unlock()
	if closed {
		return nil, rdmatransport.ErrClosed
	}
	if cfg.Depth == 0 {
		cfg.Depth = 1024
	}
	if cfg.MaxSGE == 0 {
		cfg.MaxSGE = 2
	}
	if a := &d.device.attrs; cfg.Depth > a.MaxShared || cfg.MaxSGE > a.MaxSGE {
		return nil, fmt.Errorf("loopback: %d shared receives of %d elements, limits %d and %d", cfg.Depth, cfg.MaxSGE, a.MaxShared, a.MaxSGE)
	}
	s := &sharedReceiveQueue{domain: d, cq: cq, maxSGE: cfg.MaxSGE}
	s.recv.init(cfg.Depth, cfg.MaxSGE)
	return s, nil
}

// share makes the queue pair take its receives from a shared queue, unless that is nil. The network's lock must be
// held.
func (q *queuePair) share(shared rdmatransport.SharedReceiveQueue) error {
	if shared == nil {
		return nil
	}
	s, ok := shared.(*sharedReceiveQueue)
	if !ok || s.domain != q.domain || s.cq != q.cq || s.closed {
		return errors.New("loopback: the shared receive queue belongs to another domain or completion queue than the queue pair, or closed")
	}
	q.shared, q.cfg.MaxRecv = s, 1
	q.cfg.MaxSGE = max(q.cfg.MaxSGE, s.maxSGE)
	s.users = append(s.users, q)
	return nil
}

// receive returns the receive that the next message fills, or nil.
func (q *queuePair) receive() *rdmatransport.RecvWR {
	if s := q.shared; s != nil && q.recv.pending == 0 && s.recv.pending > 0 {
		from := s.recv.head()
		sgl, wr := q.recv.add(from.SGL)
		*wr = rdmatransport.RecvWR{ID: from.ID, SGL: sgl}
		s.recv.pop()
	}
	return q.recv.head()
}

func (s *sharedReceiveQueue) PostRecv(wrs []rdmatransport.RecvWR) error {
	n := s.cq.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.closed:
		return rdmatransport.ErrClosed
	case s.recv.full(len(wrs)):
		return rdmatransport.ErrQueueFull
	}
	for i := range wrs {
		if len(wrs[i].SGL) > s.maxSGE {
			return fmt.Errorf("loopback: %d scatter elements, limit %d", len(wrs[i].SGL), s.maxSGE)
		}
	}
	for i := range wrs {
		sgl, wr := s.recv.add(wrs[i].SGL)
		*wr = rdmatransport.RecvWR{ID: wrs[i].ID, SGL: sgl}
	}
	for _, q := range s.users {
		if q.peer != nil && q.peer.send.pending > 0 {
			q.peer.cq.activate(q.peer)
			q.peer.cq.Wake()
		}
	}
	return nil
}

func (s *sharedReceiveQueue) Close() error {
	n := s.cq.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(s.users) > 0 {
		return fmt.Errorf("loopback: shared receive queue still has %d queue pairs", len(s.users))
	}
	s.closed = true
	return nil
}
