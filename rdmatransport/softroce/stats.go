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

// Stats count what one shard met. Only the shard's owner may read them;
// [Device.Stats] copies them there.
type Stats struct {
	PacketsIn       uint64
	PacketsOut      uint64                  // packets of queue pairs, of which one message to the sockets may carry many
	ClassesIn       [wire.NumClasses]uint64 // packets received that could be parsed, by the class of their opcode
	ClassesOut      [wire.NumClasses]uint64 // packets sent, those of the connection manager too
	Faults          [wire.NumFaults]uint64  // packets dropped, by reason
	UnknownQPN      uint64                  // packets for queue pairs that do not exist
	NotConnected    uint64                  // packets for queue pairs not yet connected
	SourceMismatch  uint64                  // packets from an address that is not the connection's
	Missteered      uint64                  // packets handed to another shard
	MissteeredLost  uint64                  // packets dropped since too many waited for it
	CongestionMarks uint64                  // packets that were marked CE on their way
	SendDropped     uint64                  // messages that the sockets did not take
	ReceiveErrors   uint64
	QueuePairs      int
	BacklogFull     uint64 // requests refused since too many waited for the listener's consumer; shard 0
	RC              RCCounters
	CM              CMCounters // shard 0
	UDP             UDPStats
}

// Drops are the packets and messages that were dropped, by reason: each has one, so that they can be added. What
// the sockets do not take (SendDropped) they have no room for, or refuse.
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

// RoundTrips are times until an acknowledgement.
type RoundTrips = latency.Histogram

// A ClassCount is how many packets there were of a class of opcodes.
type ClassCount struct {
	Class   string
	In, Out uint64
}

// Classes are the packets by the classes of their opcodes. Those that could not be parsed are in Faults.
func (s *Stats) Classes() (all []ClassCount) {
	for c := wire.ClassSend; c < wire.NumClasses; c++ {
		all = append(all, ClassCount{c.String(), s.ClassesIn[c], s.ClassesOut[c]})
	}
	return all
}

// Add adds what another shard has counted.
func (s *Stats) Add(o *Stats) {
	s.RC.RoundTrips.Add(&o.RC.RoundTrips)
	add(reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem())
}

// add adds the counters, whichever there are.
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

// Counters implements rdmatransport.PacketCounter, with the sums of all shards.
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

var (
	_ rdmatransport.RequestCounter = (*Device)(nil)
	_ rdmatransport.PacketCounter  = (*Device)(nil)
)
