package softroce

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// queuePair combines an rc engine with its shard, keys and path. Only the shard's owner accesses it.
type queuePair struct {
	shard *shard
	rc    *rc.QP
	keys  keyTable
	used  atomic.Bool // has been connected, or a connection was attempted
	conn  *connection // nil before the connection exchange

	local, remote netip.AddrPort // addresses of the connection; CM ports are only displayed
	route         route          // outbound; its source never changes
	planned       planned        // its state in the current turn's plan
	pathOut       wire.Path
	pathIn        wire.Path
	inPort        uint16 // source port of pathIn
	seen          identification

	shared    *sharedReceiveQueue // or nil
	active    bool                // is in shard.active for the next Flush
	ended     bool                // the manager knows of the end of the connection
	closed    bool
	moved     bool // exported
	tapped    bool // selected by the shard's tap
	wakeAt    time.Duration
	heapIndex int
}

// NewQueuePair implements rdmatransport.Domain.
func (d *domain) NewQueuePair(cfg rdmatransport.QPConfig) (rdmatransport.QueuePair, error) {
	s, shared, err := d.checkQueuePair(&cfg)
	if err != nil {
		return nil, err
	}
	return s.newQueuePair(d, &cfg, shared, s.newQPN()), nil
}

// Defaults of rdmatransport.QPConfig.
const (
	defaultDepth = 128
	defaultSGE   = 2
)

// checkQueuePair sets defaults and returns the shard and the shared receive queue, if any.
func (d *domain) checkQueuePair(cfg *rdmatransport.QPConfig) (*shard, *sharedReceiveQueue, error) {
	s, ok := cfg.CQ.(*shard)
	if !ok || s.dev != d.dev {
		return nil, nil, errors.New("softroce: the completion queue belongs to another device")
	}
	if d.over() {
		return nil, nil, rdmatransport.ErrClosed
	}
	cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE = cmp.Or(cfg.MaxSend, defaultDepth), cmp.Or(cfg.MaxRecv, defaultDepth), cmp.Or(cfg.MaxSGE, defaultSGE)
	a := d.dev.Attrs()
	if cfg.MaxSend > a.MaxQueueDepth || cfg.MaxRecv > a.MaxQueueDepth || cfg.MaxSGE > a.MaxSGE || cfg.Windows > maxWindows {
		return nil, nil, fmt.Errorf("softroce: queue pair of %d sends, %d receives, %d scatter elements, %d windows exceeds the device's %d, %d, %d, %d",
			cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE, cfg.Windows, a.MaxQueueDepth, a.MaxQueueDepth, a.MaxSGE, maxWindows)
	}
	shared, err := s.sharedOf(d, cfg.SharedRecv)
	return s, shared, err
}

// QueuePairMemory implements rdmatransport.MeasuredDomain.
func (d *domain) QueuePairMemory(cfg rdmatransport.QPConfig) int {
	c := rc.Config{MaxSend: cmp.Or(cfg.MaxSend, defaultDepth), MaxRecv: cmp.Or(cfg.MaxRecv, defaultDepth), MaxSGE: cmp.Or(cfg.MaxSGE, defaultSGE)}
	if shared, ok := cfg.SharedRecv.(*sharedReceiveQueue); ok {
		c.Shared = shared.engine()
	}
	return int(unsafe.Sizeof(queuePair{})) + cfg.Windows*int(unsafe.Sizeof(window{})) + rc.Memory(&c)
}

// newQueuePair creates a queue pair with a checked configuration.
func (s *shard) newQueuePair(d *domain, cfg *rdmatransport.QPConfig, shared *sharedReceiveQueue, qpn rdmatransport.QPN) *queuePair {
	q := &queuePair{shard: s, shared: shared, heapIndex: -1}
	q.keys.init(d, s.rng, cfg.Windows)
	q.rc = rc.New(rc.Config{
		QPN: qpn, MaxSend: cfg.MaxSend, MaxRecv: cfg.MaxRecv, MaxSGE: cfg.MaxSGE, NoRemote: cfg.NoRemote,
		Shared: shared.engine(), EndID: cfg.EndID, Keys: &q.keys,
		Completions: &s.done, Counters: &s.stats.RC, Store: &s.store, Budget: &s.budget,
		Rate: d.dev.cfg.Congestion,
	})
	q.route.source = uint8(int(qpn) / len(s.dev.shards) % len(s.port.Sources()))
	s.qps[qpn] = q
	if shared != nil {
		shared.users++
	}
	return q
}

func (q *queuePair) QPN() rdmatransport.QPN     { return q.rc.QPN() }
func (q *queuePair) LocalAddr() netip.AddrPort  { return q.local }
func (q *queuePair) RemoteAddr() netip.AddrPort { return q.remote }
func (q *queuePair) ReadDepth() int             { return q.rc.Peer().ReadsOut }

func (q *queuePair) PostSend(wrs []rdmatransport.SendWR) error {
	if q.closed { // its reservation in the completion queue has been released
		return rdmatransport.ErrClosed
	}
	if err := q.rc.PostSend(wrs); err != nil {
		return err
	}
	q.shard.activate(q)
	return nil
}

func (q *queuePair) PostRecv(wrs []rdmatransport.RecvWR) error {
	if q.closed {
		return rdmatransport.ErrClosed
	}
	return q.rc.PostRecv(wrs)
}

// MoveSource implements rdmatransport.MovingQueuePair. Packets already in the outbox are flushed, since they refer to
// the old memory.
func (q *queuePair) MoveSource(id uint64, from []byte, to rdmatransport.SGE) bool {
	if !q.rc.MoveSource(id, from, to) {
		return false
	}
	q.shard.tx.flush()
	return true
}

func (q *queuePair) NewWindow() (rdmatransport.Window, error) {
	if q.closed {
		return nil, rdmatransport.ErrClosed
	}
	w, err := q.keys.allocate()
	if err != nil {
		return nil, err
	}
	return w, nil
}

// connect starts the engine once the exchange is complete. shards is the number of the peer's shards; 0 means
// unknown.
func (q *queuePair) connect(p rc.Peer, shards uint8, remote netip.Addr, tos uint8) error {
	p.Addr = network(remote)
	if err := q.rc.Connect(p); err != nil {
		return err
	}
	lane := uint8(0)
	if shards > 0 {
		lane = uint8(uint32(p.QPN) % uint32(shards))
	}
	q.aim(remote, tos, lane)
	return nil
}

// aim sets the route and the paths to and from the peer.
func (q *queuePair) aim(remote netip.Addr, tos, lane uint8) {
	s := q.shard
	r := &q.route
	r.tos, r.lane = tos, lane
	if !s.dev.cfg.NoECN {
		r.tos = tos&^wire.ECNMask | wire.ECT0
	}
	r.to = netip.AddrPortFrom(remote, wire.Port)
	q.pathOut = wire.NewPath(s.port.Sources()[r.source], r.to)
	q.pathIn = wire.NewPath(netip.AddrPortFrom(remote, 0), netip.AddrPortFrom(s.dev.addr, wire.Port))
	s.activate(q)
}

// network returns the prefix that identifies one peer, however many addresses it has: the address for IPv4, the /64
// network for IPv6.
func network(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap(); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // invalid if the address is
	return p
}

// Disconnect first sends pending acknowledgements, which could have been delayed: otherwise the peer would take
// delivered messages for lost.
func (q *queuePair) Disconnect() {
	if q.moved {
		return
	}
	if !q.shard.still && q.rc.AckNow() {
		q.shard.flushNow(q)
	}
	q.rc.Fail(rdmatransport.ErrDisconnected)
	q.shard.activate(q)
}

func (q *queuePair) Err() error {
	if q.rc.State() != rc.StateError {
		return nil
	}
	return q.rc.Err()
}

func (q *queuePair) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	if !q.moved {
		q.Disconnect()
		q.farewell()
	}
	q.rc.Close()
	q.leave()
	if q.shared != nil {
		q.shared.users--
	}
	return nil
}

// farewell sends the remaining packets of a queue pair that ended, such as a NAK, and makes the manager tell the
// peer.
func (q *queuePair) farewell() {
	s := q.shard
	if !s.still {
		s.flushNow(q)
	} else if q.ending() {
		q.reportEnd() // sent only after Begin
	}
}

// leave removes the queue pair from its shard's tables.
func (q *queuePair) leave() {
	s := q.shard
	s.timers.remove(q)
	if s.qps[q.rc.QPN()] == q {
		delete(s.qps, q.rc.QPN())
	}
	if s.last == q {
		s.last = nil
	}
}

// ending reports whether the engine is in its error state, for whatever reason, and the manager does not know yet.
func (q *queuePair) ending() bool {
	return !q.ended && q.conn != nil && q.rc.State() == rc.StateError
}

// reportEnd makes the connection manager end the connection.
func (q *queuePair) reportEnd() {
	q.ended = true
	q.conn.end()
}
