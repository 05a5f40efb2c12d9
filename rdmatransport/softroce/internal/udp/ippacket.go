package udp

import (
	"encoding/binary"
	"net/netip"
)

// AppendPacket appends the IP packet that carries a datagram of length bytes; payload is its beginning, or all of it.
// The headers are those of a packet that Linux sends from a port. The UDP checksum is correct if the payload is
// complete. Otherwise it is zero, which over IPv4 means that there is none (RFC 768).
func AppendPacket(b []byte, from, to netip.AddrPort, tos uint8, id uint16, payload []byte, length int) []byte {
	be := binary.BigEndian
	size := uint16(udpHeader + length)
	if to.Addr().Unmap().Is4() {
		b = appendIPv4(b, from.Addr(), to.Addr(), tos, id, size)
	} else {
		b = appendIPv6(b, from.Addr(), to.Addr(), tos, size)
	}
	start := len(b)
	b = be.AppendUint16(b, from.Port())
	b = be.AppendUint16(b, to.Port())
	b = be.AppendUint16(b, size)
	b = be.AppendUint16(b, 0)
	b = append(b, payload...)
	if len(payload) < length {
		return b
	}
	sum := onesSum(pseudoHeader(from.Addr(), to.Addr(), size), b[start:])
	if sum == 0xffff {
		sum = 0 // a checksum of zero would mean that there is none
	}
	be.PutUint16(b[start+6:], ^sum)
	return b
}

// appendIPv4 appends a header as Linux sends it for a socket that never fragments.
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

// pseudoHeader returns the checksum's sum over the pseudo header.
func pseudoHeader(from, to netip.Addr, length uint16) uint32 {
	src, dst := from.AsSlice(), to.AsSlice()
	return uint32(onesSum(17, src)) + uint32(onesSum(uint32(length), dst))
}

// onesSum adds b to the sum of the Internet checksum (RFC 1071), without complementing it.
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
