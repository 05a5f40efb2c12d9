package packet

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// ICRC returns the invariant CRC (IBTA 7.8.1, A17.3.3) of a packet b that does not yet contain it. The packet is sent
// from src to dst, with identification id if it is an IPv4 packet.
func ICRC(src, dst netip.AddrPort, id uint16, b []byte) uint32 {
	h := make([]byte, 8, 8+40+8+len(b)) // a local route header of ones
	for i := range h {
		h[i] = 0xff
	}
	be, udp := binary.BigEndian, 8+len(b)+ICRCSize
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	if from.Is4() { // type of service, time to live and checksum may change on the way
		h = be.AppendUint16(append(h, 0x45, 0xff), uint16(20+udp))
		h = be.AppendUint16(h, id)
		h = append(h, 0x40, 0, 0xff, 17, 0xff, 0xff) // do not fragment
	} else { // traffic class, flow label and hop limit
		h = be.AppendUint16(append(h, 0x6f, 0xff, 0xff, 0xff), uint16(udp))
		h = append(h, 17, 0xff)
	}
	h = append(append(h, from.AsSlice()...), to.AsSlice()...)
	h = be.AppendUint16(be.AppendUint16(h, src.Port()), dst.Port())
	h = append(be.AppendUint16(h, uint16(udp)), 0xff, 0xff)
	at := len(h)
	if h = append(h, b...); len(b) > 4 {
		h[at+4] = 0xff // FECN, BECN and reserved bits
	}
	return crc32.ChecksumIEEE(h)
}

// Seal appends the ICRC of a packet with identification 0 to b.
func Seal(src, dst netip.AddrPort, b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, ICRC(src, dst, 0, b))
}
