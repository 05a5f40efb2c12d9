package softroce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// movedQueuePair is the exported state of a queue pair.
type movedQueuePair struct {
	Version int               `json:"version"`
	QPN     rdmatransport.QPN `json:"qpn"`
	ID      wire.CommID       `json:"id"` // communication ID of its connection
	Local   netip.AddrPort    `json:"local"`
	Remote  netip.AddrPort    `json:"remote"`
	TOS     uint8             `json:"tos"`
	Lane    uint8             `json:"lane"`
	RC      rc.Exported       `json:"rc"`
}

// Idle implements rdmatransport.MovableQueuePair.
func (q *queuePair) Idle() bool {
	c := q.conn
	return !q.closed && !q.moved && !q.ended && c != nil && c.confirmed && q.rc.Idle()
}

// Export implements rdmatransport.MovableQueuePair.
func (q *queuePair) Export() ([]byte, error) {
	if !q.Idle() {
		return nil, fmt.Errorf("softroce: queue pair %#x is not idle", q.QPN())
	}
	s := q.shard
	state, err := rc.Export(s.dev.clock(), q.rc)
	if err != nil {
		return nil, err
	}
	q.moved = true
	q.leave()
	if s.exported == nil {
		s.exported = map[rdmatransport.QPN]bool{}
	}
	s.exported[q.QPN()] = true
	return json.Marshal(&movedQueuePair{
		Version: movedVersion, QPN: q.QPN(), ID: q.conn.id, Local: q.local, Remote: q.remote, TOS: q.route.tos, Lane: q.route.lane, RC: state,
	})
}

// Adopt implements rdmatransport.AdoptingDomain. cfg.CQ must be the completion queue with the same index as the one
// that the queue pair was on.
func (d *domain) Adopt(cfg rdmatransport.QPConfig, state []byte) (rdmatransport.QueuePair, error) {
	s, shared, err := d.checkQueuePair(&cfg)
	if err != nil {
		return nil, err
	}
	if !s.still || s.reserved == nil {
		return nil, errNotMoved
	}
	var x movedQueuePair
	if err := json.Unmarshal(state, &x); err != nil {
		return nil, fmt.Errorf("softroce: state of a queue pair: %w", err)
	}
	if err := s.checkMoved(&x); err != nil {
		return nil, err
	}
	q := s.newQueuePair(d, &cfg, shared, x.QPN)
	x.RC.Peer.Addr = network(x.Remote.Addr())
	if err := x.RC.Restore(s.now, q.rc); err != nil {
		q.Close()
		return nil, fmt.Errorf("softroce: state of queue pair %#x: %w", x.QPN, err)
	}
	q.aim(x.Remote.Addr(), x.TOS, x.Lane)
	m := s.dev.shards[0].manager
	q.used.Store(true)
	c := &connection{manager: m, id: x.ID, qp: q, recvPSN: x.RC.Peer.RecvPSN, established: true, confirmed: true}
	q.conn, q.local, q.remote = c, x.Local, x.Remote
	m.shard.do(func() { m.adopt(c, x.QPN) })
	return q, nil
}

// checkMoved returns an error if x cannot be the state of one of this shard's queue pairs.
func (s *shard) checkMoved(x *movedQueuePair) error {
	n := len(s.dev.shards)
	remote := x.Remote.Addr()
	switch {
	case x.Version != movedVersion:
		return fmt.Errorf("softroce: the state of a queue pair has version %d, but this program supports version %d", x.Version, movedVersion)
	case x.QPN < 16 || x.QPN >= 0xffffff:
		return fmt.Errorf("softroce: %#x is not a queue pair number", x.QPN)
	case int(x.QPN)%n != s.index:
		return fmt.Errorf("softroce: queue pair %#x belongs to completion queue %d, not %d", x.QPN, int(x.QPN)%n, s.index)
	case s.qps[x.QPN] != nil:
		return fmt.Errorf("softroce: queue pair %#x is adopted already", x.QPN)
	case x.Local.Addr() != s.dev.addr:
		return fmt.Errorf("softroce: queue pair %#x belongs to device %v, not %v", x.QPN, x.Local.Addr(), s.dev.addr)
	case !remote.IsValid() || remote.Is4() != s.dev.addr.Is4() || remote.Is4In6():
		return fmt.Errorf("softroce: %v cannot be the peer of %v", remote, s.dev.addr)
	case x.ID == 0:
		return errors.New("softroce: the state of a queue pair names no connection")
	}
	return nil
}

// adopt registers the connection of an adopted queue pair. The queue pair fails if the peer has disconnected since it
// was exported.
func (m *manager) adopt(c *connection, qpn rdmatransport.QPN) {
	if n, ok := cm.QueuePair(m.engine, c.id); !ok || n != qpn || m.conns[c.id] != nil {
		c.fail(rdmatransport.ErrDisconnected)
		return
	}
	m.conns[c.id] = c
}

var (
	_ rdmatransport.MovableQueuePair = (*queuePair)(nil)
	_ rdmatransport.AdoptingDomain   = (*domain)(nil)
	_ rdmatransport.MeasuredDomain   = (*domain)(nil)
)
