package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// icrcSeeds are states of the checksum in front of a packet. The first is that
// after the eight bytes of ones that stand for InfiniBand's local route header,
// from which the ICRC starts (IBTA 7.8.1, A17.3.3). The k-th leads to the first
// over k zero bytes: put in front, they make what is summed whole blocks of 16,
// over which the processor's instructions are used, without a rest.
var icrcSeeds = [icrcBlock]uint32{
	0x2144df1c, 0xff41d912, 0x41d912ff, 0xd202ef8d, 0x00000000, 0x0f6a7026, 0x65e3626f, 0x5cd1d97e,
	0x6dd90a9d, 0x0b840633, 0x50b362e9, 0xb979a556, 0x101b2f50, 0xce3f7abc, 0x51f45351, 0x25391b17,
}

const (
	icrcBlock = 16
	foldBlock = 256
	// foldedCRC is that which leaves the CRC's register at zero.
	foldedCRC = 0xffffffff
)

// ICRC computes and checks invariant CRCs. It holds scratch memory, so one
// goroutine at a time uses a value; the zero value is ready.
type ICRC struct {
	// buf gathers the headers and short payloads: the CRC is fastest over few
	// long pieces, in whole blocks.
	buf   [8 * icrcBlock]byte
	n     int
	crc   uint32
	zero  [3]byte // pad
	solve solver
}

// Sum returns the ICRC of a packet with these BTH and extension headers, payload
// in pieces and pad count, sent on the path in an IPv4 packet with
// identification id (ignored on IPv6). It goes on the wire little-endian. header
// and payload must not lie on the stack if allocation matters: the compiler
// cannot see that hash/crc32 does not keep them.
func (c *ICRC) Sum(p *Path, id uint16, header []byte, payload [][]byte, pad int) uint32 {
	size := len(header) + pad + ICRCSize
	for _, b := range payload {
		size += len(b)
	}
	c.start(p, id, size, header)
	c.write(header[BTHSize:])
	for _, b := range payload {
		c.write(b)
	}
	c.write(c.zero[:pad])
	return c.finish()
}

// Verify reports whether b, a UDP payload from the BTH to the end of the ICRC,
// is intact, given the identification of its IPv4 packet (ignored on IPv6).
func (c *ICRC) Verify(p *Path, id uint16, b []byte) bool {
	return len(b) >= BTHSize+ICRCSize && c.difference(p, id, b) == 0
}

// Identify is Verify for a receiver that cannot see the identification. On IPv4
// it finds the only identification with which the ICRC is right, and fails if
// there is none: every single wrong bit is found, as the tests prove, and other
// corruption is missed in one of 2^16 cases. On IPv6 the check is exact and id 0.
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

// difference is the ICRC computed over b xor the one at its end.
func (c *ICRC) difference(p *Path, id uint16, b []byte) uint32 {
	end := len(b) - ICRCSize
	c.start(p, id, len(b), b)
	c.write(b[BTHSize:end])
	return c.finish() ^ binary.LittleEndian.Uint32(b[end:])
}

// start begins with zero bytes, the path's header and the BTH, whose byte of reserved and
// congestion bits is masked.
func (c *ICRC) start(p *Path, id uint16, size int, bth []byte) {
	lead := -(int(p.ip) + udpSize + size - ICRCSize) & (icrcBlock - 1)
	c.crc = icrcSeeds[lead]
	clear(c.buf[:lead])
	n := lead + p.put(c.buf[lead:], id, size)
	copy(c.buf[n:], bth[:BTHSize])
	c.buf[n+4] = 0xff
	c.n = n + BTHSize
}

func (c *ICRC) write(b []byte) {
	if canFold && len(b) >= foldBlock {
		b = c.fold(b)
	}
	k := copy(c.buf[c.n:], b)
	c.n += k
	if k == len(b) {
		return
	}
	c.crc = crc32.Update(c.crc, crc32.IEEETable, c.buf[:c.n])
	c.crc = crc32.Update(c.crc, crc32.IEEETable, b[k:])
	c.n = 0
}

// fold takes the whole blocks of b and returns the rest.
func (c *ICRC) fold(b []byte) []byte {
	n := len(b) &^ (foldBlock - 1)
	crc := c.finish()
	fold((*[64]byte)(c.buf[:]), crc, &b[0], n)
	c.crc, c.n = foldedCRC, 64
	return b[n:]
}

func (c *ICRC) finish() uint32 {
	if c.n == 0 {
		return c.crc
	}
	return crc32.Update(c.crc, crc32.IEEETable, c.buf[:c.n])
}
