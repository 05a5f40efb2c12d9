package capsule

// ReadWrite are the fields of Read, Write, Compare, Verify and Write Zeroes
// (NVM command set 1.0, chapter 3).
type ReadWrite struct {
	SLBA   LBA
	Blocks uint32 // 1 to 65536; on the wire one less
	LR     bool   // limited retry
	FUA    bool   // force unit access
	PRINFO uint8  // protection information: PRACT in bit 3, PRCHK in 2:0
	STC    bool   // storage tag check
	NSZ    bool   // Write Zeroes: the whole namespace
	DEAC   bool   // Write Zeroes: deallocate
	DTYPE  uint8  // Write: directive type, 4 bits
	DSM    uint8  // CDW13 7:0: access hints
	DSPEC  uint16 // Write: directive specific
}

// ReadWrite decodes the fields of one of these commands.
func (c *Command) ReadWrite() ReadWrite {
	d := c.CDW12
	return ReadWrite{
		SLBA:   LBA(uint64(c.CDW11)<<32 | uint64(c.CDW10)),
		Blocks: d&0xffff + 1,
		DTYPE:  uint8(bits(d, 20, 4)),
		NSZ:    d>>23&1 != 0,
		STC:    d>>24&1 != 0,
		DEAC:   d>>25&1 != 0,
		PRINFO: uint8(bits(d, 26, 4)),
		FUA:    d>>30&1 != 0,
		LR:     d>>31&1 != 0,
		DSM:    uint8(c.CDW13),
		DSPEC:  uint16(c.CDW13 >> 16),
	}
}

// Put stores the fields in a command.
func (rw ReadWrite) Put(c *Command) {
	c.CDW10, c.CDW11 = uint32(rw.SLBA), uint32(rw.SLBA>>32)
	c.CDW12 = (rw.Blocks-1)&0xffff | uint32(rw.DTYPE&0xf)<<20 | flag(rw.NSZ, 23) | flag(rw.STC, 24) | flag(rw.DEAC, 25) |
		uint32(rw.PRINFO&0xf)<<26 | flag(rw.FUA, 30) | flag(rw.LR, 31)
	c.CDW13 = uint32(rw.DSM) | uint32(rw.DSPEC)<<16
}

// DatasetManagement are the fields of a Dataset Management command.
type DatasetManagement struct {
	Ranges     int  // 1 to 256; on the wire one less
	Read       bool // hint: will be read as a whole
	Write      bool // hint: will be written as a whole
	Deallocate bool
}

// DatasetManagement decodes the fields of a Dataset Management command.
func (c *Command) DatasetManagement() DatasetManagement {
	return DatasetManagement{
		Ranges: int(c.CDW10&0xff) + 1,
		Read:   c.CDW11&1 != 0, Write: c.CDW11>>1&1 != 0, Deallocate: c.CDW11>>2&1 != 0,
	}
}

// Put stores the fields in a command.
func (d DatasetManagement) Put(c *Command) {
	c.CDW10 = uint32(d.Ranges-1) & 0xff
	c.CDW11 = flag(d.Read, 0) | flag(d.Write, 1) | flag(d.Deallocate, 2)
}

// DSMRangeSize is the length of one range of Dataset Management in bytes.
const DSMRangeSize = 16

// DSMRange is one range of Dataset Management's data.
type DSMRange struct {
	Attributes uint32
	Blocks     uint32 // counted from one; 0 for an empty range
	SLBA       LBA
}

func (r *DSMRange) fields(l layout) {
	u32(l, 0, &r.Attributes)
	u32(l, 4, &r.Blocks)
	u64(l, 8, &r.SLBA)
}

// DecodeDSMRange decodes the 16 bytes at the start of b.
func DecodeDSMRange(b []byte) (r DSMRange, err error) {
	l, err := decoder(b, DSMRangeSize)
	if err == nil {
		r.fields(l)
	}
	return r, err
}

// Extent returns the first block of the range and the block after the last one. The range must lie in the namespace,
// since otherwise the sum may overflow.
func (r DSMRange) Extent() (first, end LBA) { return r.SLBA, r.SLBA + LBA(r.Blocks) }

// Encode fills the first 16 bytes of b.
func (r DSMRange) Encode(b []byte) { r.fields(encoder(b, DSMRangeSize)) }
