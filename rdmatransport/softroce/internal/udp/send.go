package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sendSlots  = 256
	sendPieces = 4096
	// sendControl holds UDP_SEGMENT and IP_TOS or IPV6_TCLASS.
	sendControl = 2 * (cmsgHeader + cmsgAlign)
)

// sendBatch is the memory of one round of sendmmsg calls, set up once. Its entries are sorted by transmit socket:
// those of socket s are [first[s], first[s+1]).
type sendBatch struct {
	msgs    []unix.Mmsghdr
	names   []unix.RawSockaddrInet6
	control [][sendControl]byte
	segment []uint16 // of each message; 0: a single packet
	iovs    []unix.Iovec
	rank    []int16 // of each message within its socket; -1: not sent
	first   [MaxTransmit + 1]int
	pieces  int // number of iovecs in use
}

func (s *sendBatch) init() {
	s.msgs = make([]unix.Mmsghdr, sendSlots)
	s.names = make([]unix.RawSockaddrInet6, sendSlots)
	s.control = make([][sendControl]byte, sendSlots)
	s.segment = make([]uint16, sendSlots)
	s.iovs = make([]unix.Iovec, sendPieces)
	s.rank = make([]int16, sendSlots)
	for i := range s.msgs {
		s.msgs[i].Hdr.Name = (*byte)(unsafe.Pointer(&s.names[i]))
	}
}

// Send makes one sendmmsg call for each transmit socket that has messages. It makes more only if a batch is full or
// the kernel refuses a message.
func (p *port) Send(ms []Message) int {
	sent := 0
	for len(ms) > 0 {
		n := p.sort(ms)
		for i := range n {
			if p.out.rank[i] >= 0 {
				p.prepare(p.out.first[ms[i].Source]+int(p.out.rank[i]), &ms[i])
			}
		}
		taken, full := 0, p.stats.SendFull
		for source := range p.transmit {
			taken += p.call(source)
		}
		sent += taken
		p.stats.Messages += uint64(taken)
		p.stats.SendLost += uint64(n-taken) - (p.stats.SendFull - full)
		// Drop pointers to memory that may be unmapped.
		clear(p.out.iovs[:p.out.pieces])
		p.out.pieces = 0
		ms = ms[n:]
	}
	return sent
}

// sort assigns messages to entries, as many as one round holds, and returns their number.
func (p *port) sort(ms []Message) int {
	s := &p.out
	var count [MaxTransmit]int
	n, pieces := 0, 0
	for ; n < len(ms) && n < sendSlots; n++ {
		m := &ms[n]
		if !p.accepts(m) {
			s.rank[n] = -1
			continue
		}
		if pieces += len(m.Pieces); pieces > sendPieces {
			break
		}
		s.rank[n] = int16(count[m.Source])
		count[m.Source]++
	}
	for i, c := range count {
		s.first[i+1] = s.first[i] + c
	}
	return n
}

// accepts reports whether m is within the kernel's limits.
func (p *port) accepts(m *Message) bool {
	size := m.size()
	if !m.valid(size, len(p.transmit), p.is4) {
		return false
	}
	return p.gso || m.SegmentSize == 0 || size <= int(m.SegmentSize)
}

// prepare fills in entry i.
func (p *port) prepare(i int, m *Message) {
	s := &p.out
	h := &s.msgs[i].Hdr
	h.Namelen = p.rawAddress(&s.names[i], m.To)
	h.Iov = &s.iovs[s.pieces%sendPieces]
	n, size := 0, 0
	for _, b := range m.Pieces {
		if len(b) > 0 {
			v := &s.iovs[s.pieces+n]
			v.Base = &b[0]
			v.SetLen(len(b))
			n++
			size += len(b)
		}
	}
	s.pieces += n
	h.SetIovlen(n)
	s.segment[i] = m.SegmentSize
	if size <= int(m.SegmentSize) {
		s.segment[i] = 0 // a single packet needs no GSO
	}
	p.setControl(i, m.TOS)
}

func (p *port) setControl(i int, tos uint8) {
	s := &p.out
	h := &s.msgs[i].Hdr
	h.Control = nil
	h.SetControllen(0)
	if s.segment[i] == 0 && tos == 0 {
		return
	}
	c := s.control[i][:0]
	if s.segment[i] > 0 {
		c = appendControl(c, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2)
		*(*uint16)(unsafe.Pointer(&c[len(c)-cmsgAlign])) = s.segment[i]
	}
	if tos != 0 {
		level, kind := int32(unix.IPPROTO_IP), int32(unix.IP_TOS)
		if !p.is4 {
			level, kind = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		}
		c = appendControl(c, level, kind, 4)
		*(*uint32)(unsafe.Pointer(&c[len(c)-cmsgAlign])) = uint32(tos)
	}
	h.Control = &c[0]
	h.SetControllen(len(c))
}

// appendControl appends the header of a control message and a word for its value, of which size bytes are used.
func appendControl(c []byte, level, kind int32, size int) []byte {
	n := len(c)
	c = c[:n+cmsgHeader+cmsgAlign]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[n]))
	h.Level, h.Type = level, kind
	h.SetLen(cmsgHeader + size)
	return c
}

// call sends the messages prepared for one transmit socket. A message that the kernel refuses is skipped. If the send
// buffer is full, the rest is lost, as it could be in the network.
func (p *port) call(source int) (sent int) {
	s := &p.out
	next, end := s.first[source], s.first[source+1]
	for next < end {
		// RawSyscall: with MSG_DONTWAIT it cannot block.
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.transmit[source]), uintptr(unsafe.Pointer(&s.msgs[next])), uintptr(end-next), unix.MSG_DONTWAIT, 0, 0)
		p.stats.SendCalls++
		switch errno {
		case 0:
			sent += int(n)
			next += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			p.stats.SendFull += uint64(end - next)
			return sent
		default:
			p.refused(next, errno)
			next++
		}
	}
	return sent
}

// refused handles an error for message i. The kernel returns EIO if the device cannot checksum segments, and EINVAL
// if it cannot segment, but also for segments that exceed the device's MTU.
func (p *port) refused(i int, errno unix.Errno) {
	p.stats.LastSendError = errno
	s := &p.out
	if !p.gso || s.segment[i] == 0 || errno != unix.EIO && errno != unix.EINVAL {
		return
	}
	packet := int(s.segment[i]) + ipHeader(p.is4) + udpHeader
	mtu, err := p.group.routeMTU(p.goAddress(&s.names[i]).Addr())
	if errno == unix.EINVAL && (err != nil || packet > mtu) {
		return
	}
	p.gso = false
	p.stats.GSOTurnedOff++
}

const udpHeader = 8

func ipHeader(is4 bool) int {
	if is4 {
		return 20
	}
	return 40
}
