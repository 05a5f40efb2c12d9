package capsule

import "encoding/binary"

// SGLSize is the length of one SGL descriptor in bytes.
const SGLSize = 16

// MaxKeyedLength is the maximum length of a keyed data block in bytes (24 bits).
const MaxKeyedLength = 1<<24 - 1

// SGLType is the high half of a descriptor's last byte (NVMe base 2.0, 4.1.2).
type SGLType uint8

const (
	SGLDataBlock      SGLType = 0x0
	SGLBitBucket      SGLType = 0x1
	SGLSegment        SGLType = 0x2
	SGLLastSegment    SGLType = 0x3
	SGLKeyedDataBlock SGLType = 0x4
	SGLTransportData  SGLType = 0x5
	SGLVendor         SGLType = 0xf
)

// SGLSubtype is the low half of a descriptor's last byte.
type SGLSubtype uint8

const (
	SGLAddress    SGLSubtype = 0x0 // Address is a host memory address
	SGLOffset     SGLSubtype = 0x1 // Address is an offset into the capsule's data
	SGLInvalidate SGLSubtype = 0xf // keyed: as SGLAddress; the response invalidates the key
)

// SGL is one scatter gather list descriptor, with all of its 16 bytes.
type SGL struct {
	Address uint64
	word    uint64 // bytes 8 to 15
}

// KeyedSGL describes length bytes of host memory, at most [MaxKeyedLength], at address under an R_Key. With invalidate,
// the controller invalidates the key.
func KeyedSGL(address uint64, length, key uint32, invalidate bool) SGL {
	sub := SGLAddress
	if invalidate {
		sub = SGLInvalidate
	}
	return SGL{address, uint64(length&MaxKeyedLength) | uint64(key)<<24 | sglID(SGLKeyedDataBlock, sub)}
}

// InCapsuleSGL describes length bytes at an offset in the data of the same capsule.
func InCapsuleSGL(offset uint64, length uint32) SGL {
	return SGL{offset, uint64(length) | sglID(SGLDataBlock, SGLOffset)}
}

// LastSegmentSGL describes a list of descriptors, of length bytes, at an offset in the data of the same capsule.
func LastSegmentSGL(offset uint64, length uint32) SGL {
	return SGL{offset, uint64(length) | sglID(SGLLastSegment, SGLOffset)}
}

func sglID(t SGLType, s SGLSubtype) uint64 { return uint64(t)<<60 | uint64(s)<<56 }

// Type returns the descriptor type.
func (s SGL) Type() SGLType { return SGLType(s.word >> 60) }

// Subtype returns the descriptor subtype.
func (s SGL) Subtype() SGLSubtype { return SGLSubtype(s.word >> 56 & 0xf) }

// Length returns the number of bytes described: 24 bits of a keyed descriptor, 32 bits of any other.
func (s SGL) Length() uint32 {
	if s.Type() == SGLKeyedDataBlock {
		return uint32(s.word) & MaxKeyedLength
	}
	return uint32(s.word)
}

// Key returns the R_Key of a keyed descriptor.
func (s SGL) Key() uint32 { return uint32(s.word >> 24) }

// SGLKind is the way in which a descriptor moves data over RDMA.
type SGLKind uint8

const (
	SGLKindNone            SGLKind = iota // no data: a keyed descriptor of length 0, or all zeroes
	SGLKindKeyed                          // RDMA READ or WRITE at Address with Key
	SGLKindKeyedInvalidate                // the same, and the response invalidates Key
	SGLKindInCapsule                      // Length bytes at offset Address of the capsule's data
	SGLKindLastSegment                    // a list of descriptors at that place
	SGLKindInvalid
)

// Classify returns how the descriptor moves data, or the status with which the command fails: SGL Descriptor Type
// Invalid for a type that NVMe over RDMA does not define, Invalid Field for an undefined subtype (NVMe RDMA transport
// 1.0, 3.2).
func (s SGL) Classify() (SGLKind, Status) {
	sub := s.Subtype()
	switch s.Type() {
	case SGLKeyedDataBlock:
		switch {
		case sub == SGLInvalidate:
			return SGLKindKeyedInvalidate, StatusSuccess
		case sub == SGLAddress && s.Length() == 0:
			return SGLKindNone, StatusSuccess
		case sub == SGLAddress:
			return SGLKindKeyed, StatusSuccess
		}
	case SGLDataBlock:
		switch {
		case sub == SGLOffset:
			return SGLKindInCapsule, StatusSuccess
		case s == SGL{}: // no descriptor: commands without data have none
			return SGLKindNone, StatusSuccess
		}
	case SGLLastSegment:
		if sub == SGLOffset {
			return SGLKindLastSegment, StatusSuccess
		}
	default:
		return SGLKindInvalid, StatusSGLTypeInvalid
	}
	return SGLKindInvalid, StatusInvalidField
}

// DecodeSGL decodes the 16 bytes at the start of b.
func DecodeSGL(b []byte) (SGL, error) {
	if len(b) < SGLSize {
		return SGL{}, ErrShort
	}
	return SGL{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
}

// Encode fills the first 16 bytes of b.
func (s SGL) Encode(b []byte) {
	b = b[:SGLSize]
	binary.LittleEndian.PutUint64(b, s.Address)
	binary.LittleEndian.PutUint64(b[8:], s.word)
}
