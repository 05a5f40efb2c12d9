package softroce

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// A tap is a shard's part of a [capture]. It belongs to the shard, which has one only during a capture.
type tap struct {
	dev     *Device
	all     bool // otherwise only queue pairs with the flag tapped
	manage  bool // also packets of connection management
	keep    int  // bytes kept of each datagram
	box     *tapBuffer
	seen    uint64
	dropped uint64
}

// A tapBuffer holds copied packets. The shard fills one while the reader has another, and they are exchanged in the
// shard's mailbox. When the box is full, further packets are dropped.
type tapBuffer struct {
	records []tapRecord
	bytes   []byte
}

// A tapRecord is one captured packet.
type tapRecord struct {
	at       time.Duration
	from, to netip.AddrPort
	qpn      rdmatransport.QPN
	id       uint16
	tos      uint8
	out      bool
	length   int
	data     []byte // beginning of the packet; its capacity is the number of bytes to keep
}

// tapRecordSize is the approximate size of a record in bytes.
const tapRecordSize = 128

func newTapBuffer(size int) *tapBuffer {
	return &tapBuffer{make([]tapRecord, 0, max(16, size/tapRecordSize)), make([]byte, 0, size)}
}

func (b *tapBuffer) reset() {
	clear(b.records)
	b.records, b.bytes = b.records[:0], b.bytes[:0]
}

// add returns a new record for a packet of length bytes, or nil if there is no room.
func (t *tap) add(length int) *tapRecord {
	t.seen++
	b := t.box
	keep, n, at := min(length, t.keep), len(b.records), len(b.bytes)
	if n == cap(b.records) || at+keep > cap(b.bytes) {
		t.dropped++
		return nil
	}
	b.records, b.bytes = b.records[:n+1], b.bytes[:at+keep]
	r := &b.records[n]
	*r = tapRecord{at: t.dev.clock(), length: length, data: b.bytes[at : at : at+keep]}
	return r
}

// put appends as much of b as is kept.
func (r *tapRecord) put(b []byte) {
	r.data = append(r.data, b[:min(len(b), cap(r.data)-len(r.data))]...)
}

// received captures the k-th packet of a datagram. If sound, the packet is parsed in s.packet.
func (s *shard) received(d *udp.Datagram, b []byte, k int, sound bool) {
	t := s.tap
	var qpn rdmatransport.QPN
	if sound {
		qpn = s.packet.DestQPN
	}
	var q *queuePair
	wanted := t.all
	switch {
	case sound && qpn == managementQPN:
		wanted = s.manager != nil && (t.all || t.manage)
	case sound:
		if q = s.qps[qpn]; q == nil && s.dev.shards[int(qpn)%len(s.dev.shards)] != s {
			return // captured by that shard
		}
		wanted = t.all || q != nil && q.tapped
	}
	if !wanted {
		return
	}
	if r := t.add(len(b)); r != nil {
		r.from, r.to = d.From, netip.AddrPortFrom(s.dev.addr, wire.Port)
		r.qpn, r.tos, r.id = qpn, d.TOS, s.identificationOf(d, b, k)
		r.put(b)
	}
}

// identificationOf returns the IPv4 identification of a packet. If the socket does not report it, it is the one with
// which the ICRC is correct.
func (s *shard) identificationOf(d *udp.Datagram, b []byte, k int) uint16 {
	if d.ID >= 0 {
		return uint16(d.ID) + uint16(k)
	}
	if len(b) < wire.BTHSize+wire.ICRCSize {
		return 0
	}
	path := wire.NewPath(d.From, netip.AddrPortFrom(s.dev.addr, wire.Port))
	id, _ := s.icrc.Identify(&path, b)
	return id
}

// sent captures the k-th packet of a message of queue pair q.
func (t *tap) sent(q *queuePair, o *rc.Out, k uint16, crc uint32) {
	if !t.all && !q.tapped {
		return
	}
	r := t.add(int(o.HLen) + int(o.Length) + int(o.Pad) + wire.ICRCSize)
	if r == nil {
		return
	}
	r.out, r.qpn, r.id, r.tos = true, q.rc.QPN(), k, q.route.tos
	r.from, r.to = q.shard.port.Sources()[q.route.source], q.route.to
	r.put(o.Header[:o.HLen])
	for _, b := range o.Pieces[:o.NPieces] {
		r.put(b)
	}
	var end [3 + wire.ICRCSize]byte // the padding and the ICRC
	binary.LittleEndian.PutUint32(end[o.Pad:], crc)
	r.put(end[:int(o.Pad)+wire.ICRCSize])
}

// managed captures a sent packet of connection management.
func (t *tap) managed(from, to netip.AddrPort, tos uint8, b []byte) {
	if !t.all && !t.manage {
		return
	}
	if r := t.add(len(b)); r != nil {
		r.out, r.qpn, r.tos, r.from, r.to = true, managementQPN, tos, from, to
		r.put(b)
	}
}

// choose makes the tap capture only packets of the given queue pairs, ignoring those of other shards; nil means all.
func (t *tap) choose(s *shard, qpns []rdmatransport.QPN) {
	t.all, t.manage = qpns == nil, false
	for _, q := range s.qps {
		q.tapped = false
	}
	for _, qpn := range qpns {
		if q := s.qps[qpn]; q != nil {
			q.tapped = true
		}
		t.manage = t.manage || qpn == managementQPN
	}
}
