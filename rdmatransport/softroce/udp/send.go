package udp

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sendSlots  = 256
	sendPieces = 2048
	// sendControl holds one 2-byte and one 4-byte control message.
	sendControl = 2 * (cmsgHeader + 8)
)

// sendBatch is the memory of one sendmmsg call.
type sendBatch struct {
	msgs    []mmsghdr
	names   []unix.RawSockaddrInet6
	control [][sendControl]byte
	iovs    []unix.Iovec
	n       int // messages gathered
	pieces  int // iovecs used
}

func (s *sendBatch) init() {
	s.msgs = make([]mmsghdr, sendSlots)
	s.names = make([]unix.RawSockaddrInet6, sendSlots)
	s.control = make([][sendControl]byte, sendSlots)
	s.iovs = make([]unix.Iovec, sendPieces)
	for i := range s.msgs {
		s.msgs[i].hdr.Name = (*byte)(unsafe.Pointer(&s.names[i]))
	}
}

// Send makes one sendmmsg call for each transmit socket that has messages, and
// more where the batch fills.
func (p *port) Send(ms []Message) int {
	sent := 0
	for source := range p.transmit {
		for i := range ms {
			if int(ms[i].Source) != source {
				continue
			}
			if !p.out.room(&ms[i]) {
				sent += p.call(source)
			}
			p.out.add(&ms[i], p.is4)
		}
		sent += p.call(source)
	}
	runtime.KeepAlive(ms) // the iovecs point into its pieces
	return sent
}

func (s *sendBatch) room(m *Message) bool {
	return s.n < len(s.msgs) && s.pieces+len(m.Pieces) <= len(s.iovs)
}

func (s *sendBatch) add(m *Message, is4 bool) {
	h := &s.msgs[s.n].hdr
	h.Namelen = rawAddress(&s.names[s.n], m.To)
	h.Iov = &s.iovs[s.pieces]
	for _, b := range m.Pieces {
		v := &s.iovs[s.pieces]
		v.Base = &b[0]
		v.SetLen(len(b))
		s.pieces++
	}
	h.SetIovlen(len(m.Pieces))
	c := s.control[s.n][:0]
	if m.SegmentSize > 0 {
		c = appendControl(c, unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint32(m.SegmentSize), 2)
	}
	if m.TOS != 0 {
		if is4 {
			c = appendControl(c, unix.IPPROTO_IP, unix.IP_TOS, uint32(m.TOS), 4)
		} else {
			c = appendControl(c, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, uint32(m.TOS), 4)
		}
	}
	h.Control = nil
	if len(c) > 0 {
		h.Control = &c[0]
	}
	h.SetControllen(len(c))
	s.n++
}

// appendControl appends a control message with a value of size bytes.
func appendControl(c []byte, level, kind int32, value uint32, size uint64) []byte {
	n := len(c)
	c = c[:n+cmsgHeader+8]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[n]))
	h.Len, h.Level, h.Type = cmsgHeader+size, level, kind
	if size == 2 {
		*(*uint16)(unsafe.Pointer(&c[n+cmsgHeader])) = uint16(value)
	} else {
		*(*uint32)(unsafe.Pointer(&c[n+cmsgHeader])) = value
	}
	return c
}

// call sends what is gathered. A message that the kernel refuses is skipped; a
// full socket buffer loses the rest, as the network could have.
func (p *port) call(source int) (sent int) {
	s := &p.out
	for done := 0; done < s.n; {
		// RawSyscall: with MSG_DONTWAIT it cannot block.
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.transmit[source]), uintptr(unsafe.Pointer(&s.msgs[done])), uintptr(s.n-done), unix.MSG_DONTWAIT, 0, 0)
		p.stats.SendCalls++
		if errno == 0 {
			sent += int(n)
			done += int(n)
			continue
		}
		if errno == unix.EINTR {
			continue
		}
		if errno == unix.EAGAIN || errno == unix.ENOBUFS {
			break
		}
		if (errno == unix.EIO || errno == unix.EINVAL) && s.msgs[done].hdr.Controllen > 0 && p.gso {
			// The device cannot checksum segments: single packets from now on.
			p.gso = false
			p.stats.GSOTurnedOff++
		}
		done++
	}
	p.stats.Messages += uint64(sent)
	p.stats.SendLost += uint64(s.n - sent)
	s.n, s.pieces = 0, 0
	return sent
}
