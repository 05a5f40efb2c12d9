package capsule

import "encoding/binary"

// Copy are the fields of a Copy command (NVM command set 1.0, 3.2.2).
type Copy struct {
	SDLBA            LBA   // the first block of the destination
	Ranges           int   // 1 to 256; on the wire one less
	Format           uint8 // of the source ranges
	PRINFOR, PRINFOW uint8 // protection information, of reads and of writes
	STCR, STCW       bool
	DTYPE            uint8
	FUA, LR          bool
}

// Copy decodes the fields of a Copy command.
func (c *Command) Copy() Copy {
	d := c.CDW12
	return Copy{
		SDLBA:  LBA(uint64(c.CDW11)<<32 | uint64(c.CDW10)),
		Ranges: int(d&0xff) + 1, Format: uint8(bits(d, 8, 4)),
		PRINFOR: uint8(bits(d, 12, 4)), DTYPE: uint8(bits(d, 20, 4)),
		STCW: d>>24&1 != 0, STCR: d>>25&1 != 0, PRINFOW: uint8(bits(d, 26, 4)),
		FUA: d>>30&1 != 0, LR: d>>31&1 != 0,
	}
}

// Put stores the fields in a command.
func (p Copy) Put(c *Command) {
	c.CDW10, c.CDW11 = uint32(p.SDLBA), uint32(p.SDLBA>>32)
	c.CDW12 = uint32(p.Ranges-1)&0xff | uint32(p.Format&0xf)<<8 | uint32(p.PRINFOR&0xf)<<12 | uint32(p.DTYPE&0xf)<<20 |
		flag(p.STCW, 24) | flag(p.STCR, 25) | uint32(p.PRINFOW&0xf)<<26 | flag(p.FUA, 30) | flag(p.LR, 31)
}

// CopyRangeSize is the length of a source range of format 0 in bytes.
const CopyRangeSize = 32

// CopyRange is a source range of format 0, without its protection information.
type CopyRange struct {
	SLBA   LBA
	Blocks uint32 // 1 to 65536; on the wire one less
}

// DecodeCopyRange decodes the 32 bytes at the start of b.
func DecodeCopyRange(b []byte) (r CopyRange, err error) {
	l, err := decoder(b, CopyRangeSize)
	if err == nil {
		var n uint16
		u64(l, 8, &r.SLBA)
		u16(l, 16, &n)
		r.Blocks = uint32(n) + 1
	}
	return r, err
}

// Encode fills the first 32 bytes of b.
func (r CopyRange) Encode(b []byte) {
	l := encoder(b, CopyRangeSize)
	n := uint16(r.Blocks - 1)
	u64(l, 8, &r.SLBA)
	u16(l, 16, &n)
}

// Formats of source ranges (NVM command set 1.0, figures 39 to 42).
const (
	CopyFormatOthers uint8 = 2 // in this and later formats a range includes its namespace
	MaxCopyFormat    uint8 = 3
)

// CopyEntrySize returns the length in bytes of a source range of a format.
func CopyEntrySize(format uint8) int {
	if format&1 != 0 {
		return 40
	}
	return CopyRangeSize
}

// CopyEntry is a source range of any format.
type CopyEntry struct {
	NSID                            NSID // formats 2 and 3
	SLBA                            LBA
	Blocks                          uint32 // 1 to 65536; on the wire one less
	Options                         uint16 // formats 2 and 3
	ReferenceTag                    uint64 // expected; 32 bits in formats 0 and 2
	ApplicationTag, ApplicationMask uint16
}

// Encode fills the first [CopyEntrySize] bytes of b.
func (r CopyEntry) Encode(format uint8, b []byte) {
	size := CopyEntrySize(format)
	l := encoder(b, size)
	n, tag := uint16(r.Blocks-1), uint32(r.ReferenceTag)
	if format >= CopyFormatOthers {
		u32(l, 0, &r.NSID)
		u16(l, 22, &r.Options)
	}
	u64(l, 8, &r.SLBA)
	u16(l, 16, &n)
	if size == CopyRangeSize {
		u32(l, 24, &tag)
	} else { // 80 bits, the most significant byte first
		binary.BigEndian.PutUint64(b[28:], r.ReferenceTag)
	}
	u16(l, size-4, &r.ApplicationTag)
	u16(l, size-2, &r.ApplicationMask)
}
