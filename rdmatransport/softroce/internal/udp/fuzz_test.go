package udp

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FuzzControl parses arbitrary ancillary data: malformed messages are ignored.
func FuzzControl(f *testing.F) {
	message := func(level, kind int32, length uint64, value ...byte) []byte {
		b := make([]byte, cmsgHeader)
		*(*unix.Cmsghdr)(unsafe.Pointer(&b[0])) = unix.Cmsghdr{Len: length, Level: level, Type: kind}
		b = append(b, value...)
		for len(b)%cmsgAlign != 0 {
			b = append(b, 0)
		}
		return b
	}
	gro := message(unix.IPPROTO_UDP, unix.UDP_GRO, cmsgHeader+4, 0, 16, 0, 0)
	lost := message(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, cmsgHeader+4, 1, 0, 0, 0)
	f.Add(append(append(gro, message(unix.IPPROTO_IP, unix.IP_TOS, cmsgHeader+1, 3)...), lost...))
	f.Add(message(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, cmsgHeader+4, 2, 0, 0, 0))
	f.Add(message(unix.IPPROTO_UDP, unix.UDP_GRO, 1<<64-1, 255, 255, 255, 255))
	f.Add(message(unix.IPPROTO_UDP, unix.UDP_GRO, 0))
	f.Add(message(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1, 255, 255, 255, 255))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s socketBatch // where the kernel writes
		b := s.control[0][:copy(s.control[0][:], text)]
		p := &port{}
		d := Datagram{ID: -1}
		p.parseControl(&d, b)
		if d.SegmentSize < 0 || d.ID != -1 {
			t.Errorf("%+v", d)
		}
		if len(b) < cmsgHeader+4 && (d.SegmentSize != 0 || d.TOS != 0 || p.stats.Overflow != 0) {
			t.Errorf("%+v of %d bytes", d, len(b))
		}
	})
}
