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
	PacketsOut      uint64                 // packets of queue pairs, of which one message to the sockets may carry many
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

// Drops are the packets and messages that were dropped, by reason.
func (s *Stats) Drops() map[string]uint64 {
	out := map[string]uint64{
		"unknown_qpn": s.UnknownQPN, "not_connected": s.NotConnected, "source_mismatch": s.SourceMismatch, "missteered": s.MissteeredLost,
		"send_dropped": s.SendDropped, "receive_error": s.ReceiveErrors,
		"store_full": s.RC.StoreFull, "store_taken": s.RC.StoreTaken, "far_ahead": s.RC.FarAhead, "ghost_ack": s.RC.GhostAcks, "bad_ack": s.RC.BadAcks,
		"stale_duplicate": s.RC.StaleDuplicates, "wrong_state": s.RC.WrongState, "wrong_pkey": s.RC.WrongPKey, "not_rc": s.RC.NotRC,
		"cm_not_ud_send": s.CM.NotUDSend, "cm_wrong_qpn": s.CM.WrongQPN, "cm_wrong_qkey": s.CM.WrongQKey, "cm_wrong_pkey": s.CM.WrongPKey,
		"cm_bad_mad": s.CM.BadMAD, "cm_unknown_attribute": s.CM.UnknownAttribute, "cm_malformed": s.CM.MalformedMessage,
		"cm_unknown_id": s.CM.UnknownID, "cm_source_mismatch": s.CM.SourceMismatch, "cm_wrong_state": s.CM.WrongState,
		"udp_overflow": s.UDP.Overflow, "udp_truncated": s.UDP.Truncated, "udp_send_lost": s.UDP.SendLost, "udp_send_full": s.UDP.SendFull,
	}
	for f := wire.OK + 1; f < wire.NumFaults; f++ {
		out[f.String()] = s.Faults[f]
	}
	return out
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
