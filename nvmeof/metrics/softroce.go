package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

type softroceCollector struct {
	devices func() []rdmatransport.Device

	packets, bytes, retransmits, naks, drops, cnps, pairs, messages, refused, events, roundTrips *family
}

// NewSoftroce returns a collector for those devices that are of package softroce. When a device is closed, its
// series disappear.
func NewSoftroce(devices func() []rdmatransport.Device) prometheus.Collector {
	if devices == nil {
		return missing("NewSoftroce's function")
	}
	return &softroceCollector{
		devices:     devices,
		packets:     counter("roce_packets_total", "RoCEv2 packets received and sent, by opcode class; invalid: packets that could not be decoded.", "direction", "opcode_class"),
		bytes:       counter("roce_bytes_total", "Bytes of the received datagrams.", "direction"),
		retransmits: counter("roce_retransmits_total", "Retransmitted request packets, and retransmission timers that expired.", "cause"),
		naks:        counter("roce_naks_total", "Negative acknowledgements.", "direction", "code"),
		drops:       counter("roce_drops_total", "Dropped packets and messages, by reason.", "reason"),
		cnps:        counter("roce_cnp_total", "Congestion notification packets.", "direction"),
		pairs:       gauge("roce_queue_pairs", "Existing queue pairs."),
		messages:    counter("roce_cm_messages_total", "Messages of the connection manager.", "direction"),
		refused:     counter("roce_cm_rejects_total", "Connection requests that were rejected, by reason.", "reason"),
		roundTrips:  histogram("roce_rtt_seconds", "Round-trip time of packets that were sent once, one sample at a time per queue pair.", "device"),
		events:      counter("roce_events_total", "Other events of packets that are not errors, by kind.", "kind"),
	}
}

// Describe implements prometheus.Collector. It sends nothing, since the set of series changes.
func (*softroceCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *softroceCollector) Collect(out chan<- prometheus.Metric) {
	var all softroce.Stats
	there := false
	for _, d := range c.devices() {
		if d, ok := d.(*softroce.Device); ok {
			there = true
			var one softroce.Stats
			for _, s := range d.Stats() {
				one.Add(&s)
			}
			sink(out).latencies(c.roundTrips, &one.RC.RoundTrips, d.Attrs().Name)
			all.Add(&one)
		}
	}
	if there {
		c.show(sink(out), &all)
	}
}

func (c *softroceCollector) show(to sink, s *softroce.Stats) {
	put := func(f *family, n uint64, labels ...string) { to.put(f, float64(n), labels...) }
	invalid := s.PacketsIn
	for _, k := range s.Classes() {
		put(c.packets, k.In, "in", k.Class)
		put(c.packets, k.Out, "out", k.Class)
		invalid -= k.In
	}
	put(c.packets, invalid, "in", "invalid")
	put(c.bytes, s.UDP.Bytes, "in")
	put(c.retransmits, s.RC.Retransmits, "packets")
	put(c.retransmits, s.RC.Timeouts, "timeout")
	put(c.retransmits, s.CM.Retransmits, "cm")
	put(c.naks, s.RC.SequenceNAKsSent, "out", "sequence")
	put(c.naks, s.RC.SequenceNAKsGot, "in", "sequence")
	put(c.naks, s.RC.RNRNAKsSent, "out", "rnr")
	put(c.naks, s.RC.RNRNAKsGot, "in", "rnr")
	put(c.naks, s.RC.ErrorNAKsSent, "out", "error")
	put(c.naks, s.RC.ErrorNAKsGot, "in", "error")
	put(c.cnps, s.RC.CNPsSent, "out")
	put(c.cnps, s.RC.CNPsGot, "in")
	put(c.messages, s.CM.Received, "in")
	put(c.messages, s.CM.Sent, "out")
	to.put(c.pairs, float64(s.QueuePairs))
	for reason, n := range s.Drops() {
		to.count(c.drops, n, reason)
	}
	for reason, n := range map[string]uint64{
		"no_listener": s.CM.InvalidService, "transport": s.CM.InvalidTransport, "gid": s.CM.InvalidGID, "mtu": s.CM.InvalidMTU,
		"ip_header": s.CM.InvalidIPHeader, "rate": s.CM.TooMany, "backlog": s.BacklogFull, "half_open": s.CM.HalfOpenEvicted, "moved": s.CM.HalfOpenMoved,
	} {
		to.count(c.refused, n, reason)
	}
	for kind, n := range map[string]uint64{
		"duplicate_request": s.RC.Duplicates, "duplicate_response": s.RC.DuplicateResponses, "out_of_order": s.RC.OutOfOrder, "old_ack": s.RC.OldAcks,
		"ack_repeat": s.RC.AckRepeats, "rate_reduction": s.RC.RateReductions, "congestion_mark": s.CongestionMarks, "missteered": s.Missteered,
		"cm_timeout": s.CM.Timeouts, "cm_stale": s.CM.Stale, "cm_contested": s.CM.Contested, "cm_duplicate_req": s.CM.DuplicateREQ,
		"cm_duplicate_rep": s.CM.DuplicateREP, "cm_duplicate_rtu": s.CM.DuplicateRTU, "cm_unknown_dreq": s.CM.UnknownDREQ, "gso_turned_off": s.UDP.GSOTurnedOff,
	} {
		to.count(c.events, n, kind)
	}
}
