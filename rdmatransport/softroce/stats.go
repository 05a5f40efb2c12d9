package softroce

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Stats count what one shard met. Only the shard's owner may read them;
// [Device.Stats] copies them there.
type Stats struct {
	PacketsIn       uint64
	Faults          [wire.NumFaults]uint64 // packets dropped, by reason
	UnknownQPN      uint64                 // packets for queue pairs that do not exist
	NotConnected    uint64                 // packets for queue pairs not yet connected
	SourceMismatch  uint64                 // packets from an address that is not the connection's
	Missteered      uint64                 // packets handed to another shard
	MissteeredLost  uint64                 // packets dropped since too many waited for it
	CongestionMarks uint64                 // packets that were marked CE on their way
	SendDropped     uint64                 // messages that the sockets did not take
	ReceiveErrors   uint64
	QueuePairs      int
	BacklogFull     uint64 // requests refused since too many waited for the listener's consumer; shard 0
	RC              RCCounters
	CM              CMCounters // shard 0
	UDP             UDPStats
}

// refusedRequests are copies of counters of shard 0, which others may read.
type refusedRequests struct {
	tooMany, backlog, halfOpen atomic.Uint64
}

// RefusedRequests implements rdmatransport.RequestCounter.
func (d *Device) RefusedRequests() rdmatransport.RefusedRequests {
	r := &d.refused
	return rdmatransport.RefusedRequests{TooMany: r.tooMany.Load(), Backlog: r.backlog.Load(), HalfOpen: r.halfOpen.Load()}
}

// publish copies the counters where a message was received.
func (m *manager) publish() {
	n := &m.engine.Counters
	if n.Received == m.published {
		return
	}
	m.published = n.Received
	r := &m.shard.dev.refused
	r.tooMany.Store(n.TooMany)
	r.backlog.Store(m.shard.stats.BacklogFull)
	r.halfOpen.Store(n.HalfOpenEvicted)
}

var _ rdmatransport.RequestCounter = (*Device)(nil)
