package capsule

import "fmt"

// CID is a command identifier, unique among a queue's outstanding commands.
type CID uint16

// NSID is a namespace identifier; identifiers start at 1.
type NSID uint32

// NSIDBroadcast stands for all namespaces in commands that allow it.
const NSIDBroadcast NSID = 0xffffffff

// LBA is a logical block address: a number of blocks from the start of the namespace.
type LBA uint64

// QID is a queue identifier; 0 is the admin queue.
type QID uint16

// ControllerID is a controller identifier (CNTLID).
type ControllerID uint16

// Controller identifiers (NVMe base 2.0, 5.17.2.1 and fabrics 3.3).
const (
	ControllerIDMin     ControllerID = 1
	ControllerIDMax     ControllerID = 0xffef
	ControllerIDStatic  ControllerID = 0xfffe // Connect: any controller, whose state is kept
	ControllerIDDynamic ControllerID = 0xffff // Connect: allocate one
)

// Uint128 is a 16 byte counter or size.
type Uint128 struct {
	Lo, Hi uint64
}

// String returns the value in decimal if it fits into 64 bits, otherwise in hexadecimal.
func (u Uint128) String() string {
	if u.Hi == 0 {
		return fmt.Sprint(u.Lo)
	}
	return fmt.Sprintf("%#x%016x", u.Hi, u.Lo)
}

// Version is a specification version in the format of property VS: 2.0.0 is 0x20000.
type Version uint32

// MakeVersion returns the version with the given parts.
func MakeVersion(major uint16, minor, tertiary uint8) Version {
	return Version(major)<<16 | Version(minor)<<8 | Version(tertiary)
}

func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff)
}

// bits returns the width bits of v from bit lo.
func bits[T ~uint32 | ~uint64](v T, lo, width uint) T {
	return v >> lo & (1<<width - 1)
}

// with returns v with the width bits from bit lo set to x.
func with[T ~uint32 | ~uint64](v T, lo, width uint, x T) T {
	mask := T(1)<<width - 1
	return v&^(mask<<lo) | x&mask<<lo
}

// flag returns a bit at lo that is set if on.
func flag(on bool, lo uint) uint32 {
	if on {
		return 1 << lo
	}
	return 0
}
