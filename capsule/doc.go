// Package capsule holds the wire formats of NVMe and of NVMe over Fabrics:
// commands and completions, scatter gather lists, fabrics commands and their
// data, the private data of the RDMA connection exchange, properties, Identify
// data, log pages and features. Names are those of the NVM Express Base
// Specification (2.0) and of the NVMe RDMA Transport Specification (1.0).
//
// # Shape
//
// Decode functions take the bytes of one structure, which may be followed by
// others, and return a value that holds everything they read: nothing refers to
// the input. The only error is [ErrShort]; whether a value makes sense is for
// the role that uses it to decide. Encode methods fill the caller's buffer, all
// of it that the structure covers including reserved fields, and panic if it is
// shorter. Neither allocates. All integers are little endian on the wire.
//
// Fields that the specification calls 0's based are kept as on the wire where
// the name is that of the field (MQES, SQSIZE), and counted from one where the
// name is in words (Blocks, Ranges, Length).
package capsule

import "errors"

// ErrShort says that the bytes end before the structure does.
var ErrShort = errors.New("capsule: structure is cut short")

// InRange reports whether n units starting at off lie within size units. It
// cannot overflow, so all three may come from a peer.
func InRange(off, n, size uint64) bool {
	return n <= size && off <= size-n
}
