package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batchSlots = 64
	slotSize   = 65536 // at least the size of any UDP datagram, merged or not
	// slotStride distributes the slots' first lines over the cache's sets, since most datagrams are small.
	slotStride = slotSize + 3*64
	// slotOffset aligns the payload of a WRITE (after BTH and RETH, 28 bytes) to a cache line.
	slotOffset  = 36
	controlSize = 96 // UDP_GRO, IP_TOS or IPV6_TCLASS, SO_RXQ_OVFL
)

// socketBatch is the memory of one recvmmsg call, set up once. It is allocated on the heap, whose objects do not
// move.
type socketBatch struct {
	msgs    [batchSlots]unix.Mmsghdr
	iovs    [batchSlots]unix.Iovec
	names   [batchSlots]unix.RawSockaddrInet6
	control [batchSlots][controlSize]byte
	data    []byte
	used    int // number of entries whose lengths the kernel has changed
}

func (s *socketBatch) slot(i int) []byte {
	return s.data[i*slotStride+slotOffset:][:slotSize]
}

func (p *port) NewBatch() *RecvBatch {
	s := &socketBatch{data: make([]byte, batchSlots*slotStride+slotOffset), used: batchSlots}
	for i := range s.msgs {
		slot := s.slot(i)
		s.iovs[i].Base = &slot[0]
		s.iovs[i].SetLen(len(slot))
		h := &s.msgs[i].Hdr
		h.Name = (*byte)(unsafe.Pointer(&s.names[i]))
		h.Iov = &s.iovs[i]
		h.SetIovlen(1)
		h.Control = &s.control[i][0]
	}
	return &RecvBatch{Datagrams: make([]Datagram, batchSlots), sockets: s}
}

func (p *port) Recv(b *RecvBatch) (int, error) {
	s := b.sockets
	for i := range s.used {
		h := &s.msgs[i].Hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlSize)
	}
	s.used = 0
	// RawSyscall: with MSG_DONTWAIT it cannot block.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(p.recv), uintptr(unsafe.Pointer(&s.msgs[0])), batchSlots, unix.MSG_DONTWAIT, 0, 0)
	p.stats.ReceiveCalls++
	if errno != 0 {
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return 0, nil
		}
		return 0, errno
	}
	s.used = int(n)
	count := 0
	for i := range int(n) {
		if p.fill(&b.Datagrams[count], s, i) {
			count++
		}
	}
	p.stats.Datagrams += uint64(count)
	return count, nil
}

// fill describes the datagram in slot i. It returns false if the datagram was truncated.
func (p *port) fill(d *Datagram, s *socketBatch, i int) bool {
	m := &s.msgs[i]
	d.Data = s.slot(i)[:m.Len:m.Len]
	d.From = p.goAddress(&s.names[i])
	d.ID, d.SegmentSize, d.TOS = -1, 0, 0
	p.parseControl(d, s.control[i][:m.Hdr.Controllen])
	if m.Hdr.Flags&unix.MSG_TRUNC != 0 {
		p.stats.Truncated++
		return false
	}
	p.stats.Bytes += uint64(m.Len)
	if d.SegmentSize > 0 {
		p.stats.Merged++
	}
	return true
}

// A control message is a header and a value, each padded to a word.
const (
	cmsgAlign  = unix.SizeofPtr
	cmsgHeader = (unix.SizeofCmsghdr + cmsgAlign - 1) &^ (cmsgAlign - 1)
)

// parseControl reads the ancillary data that the socket options request.
func (p *port) parseControl(d *Datagram, b []byte) {
	for len(b) >= cmsgHeader+4 {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		value := *(*uint32)(unsafe.Pointer(&b[cmsgHeader]))
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO:
			d.SegmentSize = int(value)
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS:
			d.TOS = b[cmsgHeader]
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			d.TOS = uint8(value)
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL:
			p.stats.Overflow += uint64(value - p.overflow)
			p.overflow = value
		}
		next := (int(h.Len) + cmsgAlign - 1) &^ (cmsgAlign - 1)
		if next < cmsgHeader || next > len(b) {
			return
		}
		b = b[next:]
	}
}
