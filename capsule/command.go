package capsule

import "encoding/binary"

// CommandSize is the length of a submission queue entry in bytes.
const CommandSize = 64

// Opcode is the first byte of a command. Its meaning depends on the queue: convert it to [AdminOpcode] or [IOOpcode].
type Opcode uint8

// A Command is a submission queue entry (NVMe base 2.0, 3.3.3.1). It holds all 64 bytes, so that encoding it returns
// what was decoded.
type Command struct {
	Opcode Opcode
	Flags  CommandFlags
	CID    CID
	NSID   NSID // fabrics: FCTYPE in the low byte
	CDW2   uint32
	CDW3   uint32
	MPTR   uint64
	SGL    SGL
	CDW10  uint32
	CDW11  uint32
	CDW12  uint32
	CDW13  uint32
	CDW14  uint32
	CDW15  uint32
}

// CommandFlags is the second byte of a command: FUSE in bits 1:0, PSDT in 7:6.
type CommandFlags uint8

// Fuse is a command's part in a fused operation.
type Fuse uint8

const (
	FuseNone Fuse = iota
	FuseFirst
	FuseSecond
	FuseReserved
)

// PSDT says how a command describes its data.
type PSDT uint8

const (
	PSDTPRP            PSDT = iota // physical region pages: not over fabrics
	PSDTSGLContiguous              // SGL; MPTR is the address of metadata
	PSDTSGLMetadataSGL             // SGL; MPTR is the address of an SGL
	PSDTReserved
)

// FlagsSGL are the flags of a command over fabrics: not fused, PSDT 01b.
const FlagsSGL CommandFlags = CommandFlags(PSDTSGLContiguous) << 6

// Fuse returns bits 1:0.
func (f CommandFlags) Fuse() Fuse { return Fuse(f & 3) }

// PSDT returns bits 7:6.
func (f CommandFlags) PSDT() PSDT { return PSDT(f >> 6) }

// DecodeCommand decodes the 64 bytes at the start of b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < CommandSize {
		return Command{}, ErrShort
	}
	le := binary.LittleEndian
	b = b[:CommandSize]
	return Command{
		Opcode: Opcode(b[0]), Flags: CommandFlags(b[1]), CID: CID(le.Uint16(b[2:])),
		NSID: NSID(le.Uint32(b[4:])), CDW2: le.Uint32(b[8:]), CDW3: le.Uint32(b[12:]),
		MPTR: le.Uint64(b[16:]), SGL: SGL{Address: le.Uint64(b[24:]), word: le.Uint64(b[32:])},
		CDW10: le.Uint32(b[40:]), CDW11: le.Uint32(b[44:]), CDW12: le.Uint32(b[48:]),
		CDW13: le.Uint32(b[52:]), CDW14: le.Uint32(b[56:]), CDW15: le.Uint32(b[60:]),
	}, nil
}

// Encode fills the first 64 bytes of b.
func (c *Command) Encode(b []byte) {
	le := binary.LittleEndian
	b = b[:CommandSize]
	b[0], b[1] = byte(c.Opcode), byte(c.Flags)
	le.PutUint16(b[2:], uint16(c.CID))
	le.PutUint32(b[4:], uint32(c.NSID))
	le.PutUint32(b[8:], c.CDW2)
	le.PutUint32(b[12:], c.CDW3)
	le.PutUint64(b[16:], c.MPTR)
	c.SGL.Encode(b[24:])
	le.PutUint32(b[40:], c.CDW10)
	le.PutUint32(b[44:], c.CDW11)
	le.PutUint32(b[48:], c.CDW12)
	le.PutUint32(b[52:], c.CDW13)
	le.PutUint32(b[56:], c.CDW14)
	le.PutUint32(b[60:], c.CDW15)
}
