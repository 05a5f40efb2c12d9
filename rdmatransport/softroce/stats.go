package softroce

import (
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Stats holds the counters of one shard. Only the shard's owner may read a live one; [Device.Stats] returns copies.
type Stats struct {
	PacketsIn       uint64
	PacketsOut      uint64                  // packets of queue pairs; one message to the sockets may carry many
	ClassesIn       [wire.NumClasses]uint64 // parsed packets received, by class of opcode
	ClassesOut      [wire.NumClasses]uint64 // packets sent, including the connection manager's, by class of opcode
	Faults          [wire.NumFaults]uint64  // received packets dropped, by reason
	UnknownQPN      uint64                  // packets for queue pairs that do not exist
	NotConnected    uint64                  // packets for queue pairs not yet connected
	SourceMismatch  uint64                  // packets whose source is not the connection's peer
	Missteered      uint64                  // packets handed to another shard
	MissteeredLost  uint64                  // missteered packets dropped because too many were waiting
	CongestionMarks uint64                  // packets received with an ECN CE mark
	SendDropped     uint64                  // messages that the sockets did not accept
	ReceiveErrors   uint64
	QueuePairs      int
	BacklogFull     uint64 // requests rejected because the listener's backlog was full; shard 0
	RC              RCCounters
	CM              CMCounters // shard 0
	UDP             UDPStats
}

// Drops returns the packets and messages dropped, by reason. Each is counted under one reason only, so the values can
// be added. Messages that the sockets did not accept (SendDropped) found no room or were refused.
func (s *Stats) Drops() map[string]uint64 {
	out := map[string]uint64{
		"unknown_qpn": s.UnknownQPN, "not_connected": s.NotConnected, "source_mismatch": s.SourceMismatch, "missteered": s.MissteeredLost,
		"receive_error": s.ReceiveErrors,
		"store_full":    s.RC.StoreFull, "store_taken": s.RC.StoreTaken, "far_ahead": s.RC.FarAhead, "ghost_ack": s.RC.GhostAcks, "bad_ack": s.RC.BadAcks,
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

// RoundTrips is a histogram of times until an acknowledgement.
type RoundTrips = latency.Histogram

// A ClassCount is the number of packets of one class of opcodes.
type ClassCount struct {
	Class   string
	In, Out uint64
}

// Classes returns the packets by class of opcode. Packets that could not be parsed are in Faults.
func (s *Stats) Classes() (all []ClassCount) {
	for c := wire.ClassSend; c < wire.NumClasses; c++ {
		all = append(all, ClassCount{c.String(), s.ClassesIn[c], s.ClassesOut[c]})
	}
	return all
}

// Add adds the counters of another shard.
func (s *Stats) Add(o *Stats) {
	s.RC.RoundTrips.Add(&o.RC.RoundTrips)
	add(reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem())
}

// add adds counters recursively, whatever the type's fields are.
func add(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Uint64:
		to.SetUint(to.Uint() + from.Uint())
	case reflect.Int:
		to.SetInt(to.Int() + from.Int())
	case reflect.Array:
		for i := range to.Len() {
			add(to.Index(i), from.Index(i))
		}
	case reflect.Struct:
		for i := range to.NumField() {
			if to.Field(i).Type() != reflect.TypeFor[RoundTrips]() {
				add(to.Field(i), from.Field(i))
			}
		}
	}
}

// Counters implements rdmatransport.PacketCounter. It returns the sums of all shards, and waits for them like
// [Device.Stats].
func (d *Device) Counters() []rdmatransport.Counter {
	var s Stats
	for _, o := range d.Stats() {
		s.Add(&o)
	}
	out := []rdmatransport.Counter{
		{Name: "packets_in", N: s.PacketsIn}, {Name: "packets_out", N: s.PacketsOut}, {Name: "bytes_in", N: s.UDP.Bytes},
		{Name: "retransmits", N: s.RC.Retransmits}, {Name: "timeouts", N: s.RC.Timeouts},
		{Name: "sequence_naks_in", N: s.RC.SequenceNAKsGot}, {Name: "sequence_naks_out", N: s.RC.SequenceNAKsSent},
		{Name: "rnr_naks_in", N: s.RC.RNRNAKsGot}, {Name: "rnr_naks_out", N: s.RC.RNRNAKsSent},
		{Name: "error_naks_in", N: s.RC.ErrorNAKsGot}, {Name: "error_naks_out", N: s.RC.ErrorNAKsSent},
		{Name: "out_of_order", N: s.RC.OutOfOrder}, {Name: "duplicates", N: s.RC.Duplicates}, {Name: "missteered", N: s.Missteered},
		{Name: "congestion_marks", N: s.CongestionMarks}, {Name: "cnps_in", N: s.RC.CNPsGot}, {Name: "cnps_out", N: s.RC.CNPsSent},
		{Name: "rate_reductions", N: s.RC.RateReductions},
		{Name: "cm_messages_in", N: s.CM.Received}, {Name: "cm_messages_out", N: s.CM.Sent}, {Name: "cm_retransmits", N: s.CM.Retransmits},
	}
	drops := s.Drops()
	for _, reason := range slices.Sorted(maps.Keys(drops)) {
		out = append(out, rdmatransport.Counter{Name: "drop_" + reason, N: drops[reason]})
	}
	return out
}

// refusedRequests holds copies of shard 0's counters that any goroutine may read.
type refusedRequests struct {
	tooMany, backlog, halfOpen atomic.Uint64
}

// RefusedRequests implements rdmatransport.RequestCounter.
func (d *Device) RefusedRequests() rdmatransport.RefusedRequests {
	r := &d.refused
	return rdmatransport.RefusedRequests{TooMany: r.tooMany.Load(), Backlog: r.backlog.Load(), HalfOpen: r.halfOpen.Load()}
}

// publish copies the counters if a message was received since the last call.
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

var (
	_ rdmatransport.RequestCounter = (*Device)(nil)
	_ rdmatransport.PacketCounter  = (*Device)(nil)
)
