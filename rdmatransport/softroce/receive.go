package softroce

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// managementQPN is the queue pair number of connection management.
const managementQPN = 1

// receive handles one batch of datagrams and reports whether the batch was full, so that more may be waiting.
func (s *shard) receive() (more bool) {
	n, err := s.port.Recv(s.batch)
	s.busy = n > 0
	if err != nil {
		s.stats.ReceiveErrors++
		return false
	}
	if n > 0 {
		s.reach.begin()
		for i := range n {
			s.datagram(&s.batch.Datagrams[i])
		}
		s.reach.end()
	}
	return n == len(s.batch.Datagrams)
}

// datagram splits a datagram that the kernel has merged (GRO) into packets.
func (s *shard) datagram(d *udp.Datagram) {
	rest := d.Data
	if len(rest) == 0 {
		s.handlePacket(d, nil, 0) // counted as too short
	}
	for k := 0; len(rest) > 0; k++ {
		b := rest
		if d.SegmentSize > 0 && d.SegmentSize < len(rest) {
			b = rest[:d.SegmentSize]
		}
		rest = rest[len(b):]
		s.handlePacket(d, b, k)
	}
}

// handlePacket handles the k-th packet of a datagram.
func (s *shard) handlePacket(d *udp.Datagram, b []byte, k int) {
	p := &s.packet
	s.stats.PacketsIn++
	fault := wire.Parse(b, p)
	if s.tap != nil {
		s.received(d, b, k, fault == wire.OK)
	}
	if fault != wire.OK {
		s.stats.Faults[fault]++
		return
	}
	s.stats.ClassesIn[p.Opcode.Class()]++
	if p.DestQPN == managementQPN {
		s.management(d, b, k)
		return
	}
	q := s.last
	if q == nil || q.rc.QPN() != p.DestQPN || q.closed {
		if q = s.qps[p.DestQPN]; q == nil {
			s.unknown(d, b)
			return
		}
		s.last = q
	}
	switch {
	case !q.route.to.IsValid():
		s.stats.NotConnected++
	case d.From.Addr() != q.route.to.Addr():
		s.stats.SourceMismatch++
	case !s.intact(q, d, b, k):
		s.stats.Faults[wire.BadICRC]++
	default:
		if d.CE() {
			s.stats.CongestionMarks++
			q.rc.Marked(s.now, p)
		}
		q.established()
		q.rc.Receive(s.now, p)
		s.activate(q)
	}
}

// unknown handles a packet whose queue pair is not on this shard. The kernel steers a merged datagram as a whole, so
// the packet may belong to another shard and is handed there. Otherwise it is dropped.
func (s *shard) unknown(d *udp.Datagram, b []byte) {
	owner := s.dev.shards[int(s.packet.DestQPN)%len(s.dev.shards)]
	if s.packet.DestQPN == managementQPN {
		owner = s.dev.shards[0]
	}
	if owner == s {
		if s.exported[s.packet.DestQPN] {
			s.keep(d, b)
		} else {
			s.stats.UnknownQPN++
		}
		return
	}
	if owner.foreign.Load() >= maxForeign {
		s.stats.MissteeredLost++
		return
	}
	s.stats.Missteered++
	owner.foreign.Add(1)
	c := *d
	c.Data, c.SegmentSize = append([]byte(nil), b...), 0
	owner.do(func() {
		owner.foreign.Add(-1)
		owner.reach.begin()
		owner.handlePacket(&c, c.Data, 0)
		owner.reach.end()
	})
}

// maxForeign is the maximum number of packets from other shards in a shard's mailbox. It bounds the memory that a
// peer can take with missteered packets while the shard is busy.
const maxForeign = 512

// intact verifies the ICRC. The check is exact if the IPv4 identification is known or the packet is IPv6. Otherwise
// the identification is derived from the ICRC and must fit those of the queue pair's earlier packets.
func (s *shard) intact(q *queuePair, d *udp.Datagram, b []byte, k int) bool {
	if port := d.From.Port(); port != q.inPort {
		q.inPort = port
		q.pathIn.SetSourcePort(port)
	}
	if d.ID >= 0 {
		return s.icrc.Verify(&q.pathIn, uint16(d.ID)+uint16(k), b)
	}
	if d.SegmentSize > 0 && s.icrc.Verify(&q.pathIn, uint16(k), b) {
		return true
	}
	id, ok := s.icrc.Identify(&q.pathIn, b)
	if !ok {
		q.seen.corrupt = true
		return false
	}
	return q.seen.plausible(id, s.now)
}

// management passes a datagram for queue pair 1 to the connection manager.
func (s *shard) management(d *udp.Datagram, b []byte, k int) {
	if s.manager == nil {
		s.unknown(d, b)
		return
	}
	path := wire.NewPath(d.From, netip.AddrPortFrom(s.dev.addr, wire.Port))
	ok := false
	if d.ID >= 0 {
		ok = s.icrc.Verify(&path, uint16(d.ID)+uint16(k), b)
	} else {
		_, ok = s.icrc.Identify(&path, b)
	}
	if !ok {
		s.stats.Faults[wire.BadICRC]++
		return
	}
	s.manager.receive(d.From, &s.packet)
}

// established tells the connection manager that data has arrived, which takes the place of a lost RTU (IBTA
// 12.9.8.3.1, communication established).
func (q *queuePair) established() {
	if c := q.conn; c != nil && !c.established {
		c.established = true
		c.dataArrived()
	}
}

var _ rdmatransport.CompletionQueue = (*shard)(nil)
