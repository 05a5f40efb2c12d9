package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// icrcSeeds are initial states of the checksum. The first is the state after the eight bytes of ones that stand for
// InfiniBand's local route header, with which the ICRC starts (IBTA 7.8.1, A17.3.3). The k-th becomes the first after
// k zero bytes. With that many zeros in front, the input is whole blocks of 16 or 64 bytes, for which the processor's
// instructions can be used.
var icrcSeeds = [foldBlock]uint32{
	0x2144df1c, 0xff41d912, 0x41d912ff, 0xd202ef8d, 0x00000000, 0x0f6a7026, 0x65e3626f, 0x5cd1d97e,
	0x6dd90a9d, 0x0b840633, 0x50b362e9, 0xb979a556, 0x101b2f50, 0xce3f7abc, 0x51f45351, 0x25391b17,
	0x59a3c794, 0x1f90f35a, 0x451a44f5, 0xca72f00b, 0xc758f1d7, 0x8033135d, 0x591ee6b3, 0xa2b1d45a,
	0xd9cf5805, 0x1668a9cf, 0x0b0cfaf9, 0xd84fa8e9, 0x4de9438e, 0x5448a646, 0x999b1fd0, 0x9d241a25,
	0xf907faa3, 0xb14fbcba, 0x4b3fee1d, 0x34502a03, 0x31998f4f, 0xf86bd088, 0x061491fb, 0xad4e9463,
	0x2676554c, 0xa00f9016, 0x0a181ec6, 0x17da91a8, 0x62459bb8, 0x97ec177a, 0x31a4822d, 0xc566b288,
	0xd3e3469e, 0x3ad81541, 0x622eff47, 0xfc88e87a, 0x3e0a767d, 0x6b6bd6c1, 0x0fed4576, 0xe2d6326f,
	0x61220bef, 0x469e4cf8, 0xf898f189, 0xf53590fb, 0x353edc71, 0x841efb0e, 0xafd0a035, 0xd5d1098f,
}

const (
	icrcBlock = 16
	foldBlock = 64
	// foldLeast is the minimum number of bytes for fold, apart from the headers.
	foldLeast = 256
)

// ICRC computes and checks invariant CRCs. It contains scratch memory, so a value must be used by one goroutine at a
// time. The zero value is ready to use.
type ICRC struct {
	// buf gathers the headers and short payloads, since the CRC is fastest over few long pieces, in whole blocks.
	// Zeros and headers take less than 128 bytes.
	buf   [3 * foldBlock]byte
	n     int
	crc   uint32
	zero  [3]byte // pad
	solve solver
}

// Sum returns the ICRC of a packet sent on the path. header has its BTH and extension headers, payload the pieces of
// its payload, and pad its pad count. id is the identification of the IPv4 packet (ignored on IPv6). The ICRC is
// little-endian on the wire. To avoid an allocation, header and payload must not be on the stack: the compiler cannot
// see that hash/crc32 does not retain them.
func (c *ICRC) Sum(p *Path, id uint16, header []byte, payload [][]byte, pad int) uint32 {
	if canFold && pad == 0 && len(payload) == 1 && len(payload[0]) >= foldLeast+foldBlock {
		return c.folded(p, id, header, header[BTHSize:], payload[0])
	}
	size := len(header) + pad + ICRCSize
	for _, b := range payload {
		size += len(b)
	}
	block := icrcBlock
	if c.short(p, size) {
		block = foldBlock
	}
	c.start(p, id, size, header, block)
	c.write(header[BTHSize:])
	for _, b := range payload {
		c.write(b)
	}
	c.write(c.zero[:pad])
	if block == foldBlock {
		return fold(c.crc, &c.buf[0], c.n, &c.buf[0], 0)
	}
	return c.finish()
}

// short reports whether fold can be used for a packet with size bytes of UDP payload, and the packet fits into buf.
func (c *ICRC) short(p *Path, size int) bool {
	return canFold && int(p.ip)+udpSize+size-ICRCSize <= len(c.buf)
}

// Verify reports whether the ICRC of b is correct. b is a UDP payload from the BTH to the end of the ICRC, and id the
// identification of its IPv4 packet (ignored on IPv6).
func (c *ICRC) Verify(p *Path, id uint16, b []byte) bool {
	return len(b) >= BTHSize+ICRCSize && c.difference(p, id, b) == 0
}

// Identify is Verify for a receiver that cannot see the identification. On IPv4 it returns the only identification
// with which the ICRC is correct, and fails if there is none. It detects every single wrong bit, as the tests prove,
// and misses other corruption with probability 2^-16. On IPv6 the check is exact and id is 0.
func (c *ICRC) Identify(p *Path, b []byte) (id uint16, ok bool) {
	if len(b) < BTHSize+ICRCSize {
		return 0, false
	}
	diff := c.difference(p, 0, b)
	if diff == 0 {
		return 0, true
	}
	if !p.Is4() {
		return 0, false
	}
	return c.solve.identification(len(b), diff)
}

// difference returns the computed ICRC of b xor the ICRC at its end.
func (c *ICRC) difference(p *Path, id uint16, b []byte) uint32 {
	end := len(b) - ICRCSize
	sent := binary.LittleEndian.Uint32(b[end:])
	if payload := b[BTHSize:end]; canFold && len(payload) >= foldLeast+foldBlock {
		return c.folded(p, id, b, nil, payload) ^ sent
	}
	if c.short(p, len(b)) {
		c.start(p, id, len(b), b, foldBlock)
		c.n += copy(c.buf[c.n:], b[BTHSize:end])
		return fold(c.crc, &c.buf[0], c.n, &c.buf[0], 0) ^ sent
	}
	c.start(p, id, len(b), b, icrcBlock)
	c.write(b[BTHSize:end])
	return c.finish() ^ sent
}

// folded returns the ICRC of a packet with one long payload after its headers. The zeros, the headers and the first
// bytes of the payload form whole blocks, and so does the rest.
func (c *ICRC) folded(p *Path, id uint16, bth, extensions, payload []byte) uint32 {
	c.start(p, id, BTHSize+len(extensions)+len(payload)+ICRCSize, bth, foldBlock)
	c.n += copy(c.buf[c.n:], extensions)
	k := -c.n & (foldBlock - 1)
	c.n += copy(c.buf[c.n:], payload[:k])
	return fold(c.crc, &c.buf[0], c.n, &payload[k], len(payload)-k)
}

// start begins with zero bytes, the path's header and the BTH, whose byte of reserved and congestion bits is masked.
// The number of zeros makes the whole packet a multiple of the block size.
func (c *ICRC) start(p *Path, id uint16, size int, bth []byte, block int) {
	lead := -(int(p.ip) + udpSize + size - ICRCSize) & (block - 1)
	c.crc = icrcSeeds[lead]
	clear(c.buf[:lead])
	n := lead + p.put(c.buf[lead:], id, size)
	copy(c.buf[n:], bth[:BTHSize])
	c.buf[n+4] = 0xff
	c.n = n + BTHSize
}

func (c *ICRC) write(b []byte) {
	k := copy(c.buf[c.n:], b)
	c.n += k
	if k == len(b) {
		return
	}
	c.crc = crc32.Update(c.crc, crc32.IEEETable, c.buf[:c.n])
	c.crc = crc32.Update(c.crc, crc32.IEEETable, b[k:])
	c.n = 0
}

func (c *ICRC) finish() uint32 {
	if c.n == 0 {
		return c.crc
	}
	return crc32.Update(c.crc, crc32.IEEETable, c.buf[:c.n])
}
