package wire

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv4Size = 20
	ipv6Size = 40
	udpSize  = 8
)

// A Path holds the IP and UDP headers that packets from one address and port to another have in common, as covered by
// the ICRC: fields that may change on the way are set to ones (IBTA A17.3.3). It assumes packets as sent by Linux's
// rxe and by a UDP socket with path MTU discovery: no options, no fragments, and on IPv4 the don't-fragment bit.
type Path struct {
	header [ipv6Size + udpSize]byte
	ip     uint8 // bytes of the IP header: 20 or 40
}

// NewPath returns the path of packets from src to dst, two addresses of one family. IPv4-mapped addresses count as
// IPv4.
func NewPath(src, dst netip.AddrPort) Path {
	var p Path
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	h := p.header[:0]
	if from.Is4() {
		p.ip = ipv4Size
		h = append(h, 0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff)
	} else {
		p.ip = ipv6Size
		h = append(h, 0x6f, 0xff, 0xff, 0xff, 0, 0, 17, 0xff)
	}
	h = append(append(h, from.AsSlice()...), to.AsSlice()...)
	h = binary.BigEndian.AppendUint16(h, src.Port())
	h = binary.BigEndian.AppendUint16(h, dst.Port())
	_ = append(h, 0, 0, 0xff, 0xff)
	return p
}

// Is4 reports whether the path is an IPv4 path.
func (p *Path) Is4() bool { return p.ip == ipv4Size }

// SetSourcePort changes the UDP source port.
func (p *Path) SetSourcePort(port uint16) { binary.BigEndian.PutUint16(p.header[p.ip:], port) }

// put writes the header of a packet with n bytes of UDP payload, ICRC included, and returns its size. id is used on
// IPv4 only.
func (p *Path) put(dst []byte, id uint16, n int) int {
	size := int(p.ip) + udpSize
	copy(dst, p.header[:size])
	if p.ip == ipv4Size {
		binary.BigEndian.PutUint16(dst[2:], uint16(ipv4Size+udpSize+n))
		binary.BigEndian.PutUint16(dst[4:], id)
	} else {
		binary.BigEndian.PutUint16(dst[4:], uint16(udpSize+n))
	}
	binary.BigEndian.PutUint16(dst[size-4:], uint16(udpSize+n))
	return size
}
