package udp

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"
)

// Tap returns g with a copy of every packet that its ports send or receive
// written to w as a pcap file of Ethernet frames, one Write for each batch.
// Messages with segments and merged datagrams are written as the packets they
// stand for. A packet to send is written before it is sent, whether the network
// takes it or not; a message that no port would take is left out.
//
// The headers are those that Linux gives what we send; of what was received, the
// TTL and, unless the datagram has it, the IPv4 identification are made up
// (64; 0, or k in the k-th packet of a merged datagram), and so are the MAC
// addresses (02:00 and the last four bytes of the IP address). UDP checksums are
// right.
//
// The first error of w ends the recording and is returned by Close. The data
// path without a tap pays nothing; with one it shares a lock.
func Tap(g Group, w io.Writer) (Group, error) {
	t := &tap{w: w, local: netip.AddrPortFrom(g.Addr(), roce)}
	if _, err := w.Write(appendFileHeader(nil)); err != nil {
		return nil, fmt.Errorf("packet capture: %w", err)
	}
	tg := &tapGroup{Group: g, tap: t}
	for _, p := range g.Ports() {
		tg.ports = append(tg.ports, &tapPort{Port: p, tap: t, sources: p.Sources()})
	}
	return tg, nil
}

type tapGroup struct {
	Group
	tap   *tap
	ports []Port
}

func (g *tapGroup) Ports() []Port { return g.ports }

func (g *tapGroup) Close() error {
	err := g.Group.Close()
	g.tap.mu.Lock()
	defer g.tap.mu.Unlock()
	if err == nil && g.tap.err != nil {
		err = fmt.Errorf("packet capture: %w", g.tap.err)
	}
	return err
}

type tapPort struct {
	Port
	tap     *tap
	sources []netip.AddrPort
	gather  []byte // a message in one piece
}

func (p *tapPort) Recv(b *RecvBatch) (int, error) {
	n, err := p.Port.Recv(b)
	if n > 0 {
		p.tap.record(func(now time.Time) {
			for i := range n {
				d := &b.Datagrams[i]
				p.tap.packets(now, d.From, p.tap.local, d.TOS, max(0, d.ID), d.SegmentSize, d.Data)
			}
		})
	}
	return n, err
}

func (p *tapPort) Send(ms []Message) int {
	p.tap.record(func(now time.Time) {
		for i := range ms {
			m := &ms[i]
			if !m.valid(m.size(), len(p.sources), p.tap.local.Addr().Is4()) {
				continue
			}
			p.gather = p.gather[:0]
			for _, b := range m.Pieces {
				p.gather = append(p.gather, b...)
			}
			p.tap.packets(now, p.sources[m.Source], m.To, m.TOS, 0, int(m.SegmentSize), p.gather)
		}
	})
	return p.Port.Send(ms)
}

// tap writes frames for all ports of a group.
type tap struct {
	local netip.AddrPort

	mu  sync.Mutex // guards what follows, so that frames stay whole and in order
	w   io.Writer
	buf []byte
	err error
}

// record writes the frames that gather appends.
func (t *tap) record(gather func(now time.Time)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.buf = t.buf[:0]
	gather(time.Now())
	_, t.err = t.w.Write(t.buf)
}

// packets appends the frames of one message or datagram.
func (t *tap) packets(now time.Time, from, to netip.AddrPort, tos uint8, id int32, segment int, data []byte) {
	if segment == 0 {
		segment = len(data)
	}
	for first := true; first || len(data) > 0; first = false {
		n := min(segment, len(data))
		t.buf = appendFrame(t.buf, now, from, to, tos, uint16(id), data[:n])
		data = data[n:]
		id++
	}
}

// The libpcap format: a file header, then a header before each frame.
const (
	pcapMicroseconds = 0xa1b2c3d4
	pcapEthernet     = 1
	pcapSnapLength   = 1 << 18
)

func appendFileHeader(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, pcapMicroseconds)
	b = le.AppendUint16(b, 2) // version 2.4
	b = le.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // UTC, no accuracy
	b = le.AppendUint32(b, pcapSnapLength)
	return le.AppendUint32(b, pcapEthernet)
}

func appendFrame(b []byte, now time.Time, from, to netip.AddrPort, tos uint8, id uint16, payload []byte) []byte {
	is4 := to.Addr().Unmap().Is4()
	size := uint32(14 + ipHeader(is4) + udpHeader + len(payload))
	le, be := binary.LittleEndian, binary.BigEndian
	b = le.AppendUint32(b, uint32(now.Unix()))
	b = le.AppendUint32(b, uint32(now.Nanosecond()/1000))
	b = le.AppendUint32(b, size) // captured
	b = le.AppendUint32(b, size) // on the wire
	b = appendMAC(appendMAC(b, to.Addr()), from.Addr())
	length := uint16(udpHeader + len(payload))
	if is4 {
		b = be.AppendUint16(b, 0x0800)
		b = appendIPv4(b, from.Addr(), to.Addr(), tos, id, length)
	} else {
		b = be.AppendUint16(b, 0x86dd)
		b = appendIPv6(b, from.Addr(), to.Addr(), tos, length)
	}
	start := len(b)
	b = be.AppendUint16(b, from.Port())
	b = be.AppendUint16(b, to.Port())
	b = be.AppendUint16(b, length)
	b = be.AppendUint16(b, 0)
	b = append(b, payload...)
	sum := onesSum(pseudoHeader(from.Addr(), to.Addr(), length), b[start:])
	if sum == 0xffff {
		sum = 0 // a checksum of zero would mean none
	}
	be.PutUint16(b[start+6:], ^sum)
	return b
}

func appendMAC(b []byte, a netip.Addr) []byte {
	x := a.As16()
	return append(b, 2, 0, x[12], x[13], x[14], x[15])
}

// appendIPv4 appends a header as Linux makes it for a socket that never fragments.
func appendIPv4(b []byte, from, to netip.Addr, tos uint8, id, length uint16) []byte {
	be := binary.BigEndian
	start := len(b)
	b = append(b, 0x45, tos)
	b = be.AppendUint16(b, 20+length)
	b = be.AppendUint16(b, id)
	b = append(b, 0x40, 0, 64, 17, 0, 0) // DF; TTL 64; UDP; checksum
	src, dst := from.As4(), to.As4()
	b = append(append(b, src[:]...), dst[:]...)
	be.PutUint16(b[start+10:], ^onesSum(0, b[start:]))
	return b
}

func appendIPv6(b []byte, from, to netip.Addr, class uint8, length uint16) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, 6<<28|uint32(class)<<20)
	b = be.AppendUint16(b, length)
	b = append(b, 17, 64)
	src, dst := from.As16(), to.As16()
	return append(append(b, src[:]...), dst[:]...)
}

// pseudoHeader is the sum of what the UDP checksum covers besides the datagram.
func pseudoHeader(from, to netip.Addr, length uint16) uint32 {
	src, dst := from.AsSlice(), to.AsSlice()
	return uint32(onesSum(17, src)) + uint32(onesSum(uint32(length), dst))
}

// onesSum is the Internet checksum's sum (RFC 1071), not yet complemented.
func onesSum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
