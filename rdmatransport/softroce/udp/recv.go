package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batchSlots  = 32
	slotSize    = 65536 // the largest merged datagram
	controlSize = 96    // UDP_GRO, IP_TOS and SO_RXQ_OVFL
)

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// socketBatch is the memory of one recvmmsg call, set up once.
type socketBatch struct {
	msgs    [batchSlots]mmsghdr
	iovs    [batchSlots]unix.Iovec
	names   [batchSlots]unix.RawSockaddrInet6
	control [batchSlots][controlSize]byte
	data    []byte
	used    int // entries whose lengths the kernel has changed
}

func (p *port) NewBatch() *RecvBatch {
	s := &socketBatch{data: make([]byte, batchSlots*slotSize), used: batchSlots}
	for i := range s.msgs {
		s.iovs[i].Base = &s.data[i*slotSize]
		s.iovs[i].SetLen(slotSize)
		h := &s.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&s.names[i]))
		h.Iov = &s.iovs[i]
		h.Iovlen = 1
		h.Control = &s.control[i][0]
	}
	return &RecvBatch{Datagrams: make([]Datagram, batchSlots), sockets: s}
}

func (p *port) Recv(b *RecvBatch) (int, error) {
	s := b.sockets
	for i := range s.used {
		h := &s.msgs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlSize)
		h.Flags = 0
	}
	s.used = 0
	// RawSyscall: with MSG_DONTWAIT it cannot block.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(p.recv), uintptr(unsafe.Pointer(&s.msgs[0])), batchSlots, unix.MSG_DONTWAIT, 0, 0)
	p.stats.ReceiveCalls++
	if errno != 0 {
		if errno == unix.EAGAIN || errno == unix.EINTR || errno == unix.ECONNREFUSED {
			return 0, nil
		}
		return 0, errno
	}
	s.used = int(n)
	p.stats.Datagrams += uint64(n)
	for i := range int(n) {
		p.fill(&b.Datagrams[i], s, i)
	}
	return int(n), nil
}

func (p *port) fill(d *Datagram, s *socketBatch, i int) {
	m := &s.msgs[i]
	if m.hdr.Flags&unix.MSG_TRUNC != 0 {
		p.stats.Truncated++
	}
	d.Data = s.data[i*slotSize:][:m.len:m.len]
	d.From = goAddress(&s.names[i])
	d.ID, d.SegmentSize, d.TOS = -1, 0, 0
	p.parseControl(d, s.control[i][:m.hdr.Controllen])
}

const cmsgHeader = unix.SizeofCmsghdr

// parseControl reads the ancillary data that the sockets ask for.
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
			p.stats.Overflow = uint64(value)
		}
		next := (int(h.Len) + 7) &^ 7
		if next < cmsgHeader || next > len(b) {
			return
		}
		b = b[next:]
	}
}
