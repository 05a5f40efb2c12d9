package softroce

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
)

const (
	defaultShared = 1024
	maxShared     = 1 << 16
)

// sharedReceiveQueue implements rdmatransport.SharedReceiveQueue. Only the shard's owner accesses it.
type sharedReceiveQueue struct {
	shard  *shard
	domain *domain
	rc     *rc.SharedRecv
	users  int // number of queue pairs
	closed bool
}

// NewSharedReceiveQueue implements rdmatransport.Domain.
func (d *domain) NewSharedReceiveQueue(cfg rdmatransport.SRQConfig) (rdmatransport.SharedReceiveQueue, error) {
	s, ok := cfg.CQ.(*shard)
	if !ok || s.dev != d.dev {
		return nil, errors.New("softroce: the completion queue belongs to another device")
	}
	if d.over() {
		return nil, rdmatransport.ErrClosed
	}
	if cfg.Depth == 0 {
		cfg.Depth = defaultShared
	}
	if cfg.MaxSGE == 0 {
		cfg.MaxSGE = 2
	}
	a := d.dev.Attrs()
	if cfg.Depth < 1 || cfg.Depth > a.MaxShared || cfg.MaxSGE < 1 || cfg.MaxSGE > a.MaxSGE {
		return nil, fmt.Errorf("softroce: shared receive queue of %d receives, %d scatter elements: want 1 to %d and 1 to %d",
			cfg.Depth, cfg.MaxSGE, a.MaxShared, a.MaxSGE)
	}
	return &sharedReceiveQueue{shard: s, domain: d, rc: rc.NewSharedRecv(cfg.Depth, cfg.MaxSGE, &s.done)}, nil
}

// sharedOf returns the shared receive queue that a queue pair's configuration names, or nil.
func (s *shard) sharedOf(d *domain, shared rdmatransport.SharedReceiveQueue) (*sharedReceiveQueue, error) {
	if shared == nil {
		return nil, nil
	}
	q, ok := shared.(*sharedReceiveQueue)
	switch {
	case !ok || q.shard != s || q.domain != d:
		return nil, errors.New("softroce: the shared receive queue belongs to another domain or completion queue than the queue pair")
	case q.closed:
		return nil, rdmatransport.ErrClosed
	}
	return q, nil
}

// engine returns the rc engine's queue, or nil.
func (q *sharedReceiveQueue) engine() *rc.SharedRecv {
	if q == nil {
		return nil
	}
	return q.rc
}

// PostRecv implements rdmatransport.SharedReceiveQueue.
func (q *sharedReceiveQueue) PostRecv(wrs []rdmatransport.RecvWR) error {
	if q.closed {
		return rdmatransport.ErrClosed
	}
	return q.rc.PostRecv(wrs)
}

// Close implements rdmatransport.SharedReceiveQueue.
func (q *sharedReceiveQueue) Close() error {
	switch {
	case q.closed:
		return nil
	case q.users > 0:
		return fmt.Errorf("softroce: shared receive queue still has %d queue pairs", q.users)
	}
	q.closed = true
	q.rc.Close()
	return nil
}

var _ rdmatransport.SharedReceiveQueue = (*sharedReceiveQueue)(nil)
