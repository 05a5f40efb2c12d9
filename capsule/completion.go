package capsule

import "encoding/binary"

// CompletionSize is the length of a completion queue entry in bytes.
const CompletionSize = 16

// A Completion is a completion queue entry (NVMe base 2.0, 3.3.3.2). Over fabrics the phase bit is reserved; it is not
// kept.
type Completion struct {
	Result uint64 // DW0 in the low half, DW1 in the high one
	SQHD   uint16 // submission queue head, 0xffff when flow control is off
	SQID   QID    // reserved over fabrics
	CID    CID
	Status Status
}

// DW0 returns the command specific result of most commands.
func (c *Completion) DW0() uint32 { return uint32(c.Result) }

// DecodeCompletion decodes the 16 bytes at the start of b.
func DecodeCompletion(b []byte) (Completion, error) {
	if len(b) < CompletionSize {
		return Completion{}, ErrShort
	}
	le := binary.LittleEndian
	b = b[:CompletionSize]
	return Completion{
		Result: le.Uint64(b), SQHD: le.Uint16(b[8:]), SQID: QID(le.Uint16(b[10:])),
		CID: CID(le.Uint16(b[12:])), Status: Status(le.Uint16(b[14:]) >> 1),
	}, nil
}

// Encode fills the first 16 bytes of b.
func (c *Completion) Encode(b []byte) {
	le := binary.LittleEndian
	b = b[:CompletionSize]
	le.PutUint64(b, c.Result)
	le.PutUint16(b[8:], c.SQHD)
	le.PutUint16(b[10:], uint16(c.SQID))
	le.PutUint16(b[12:], uint16(c.CID))
	le.PutUint16(b[14:], uint16(c.Status)<<1)
}
