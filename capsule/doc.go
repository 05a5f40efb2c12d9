// Package capsule implements the wire formats of NVMe and of NVMe over Fabrics: commands and completions, scatter
// gather lists, fabrics commands and their data, the private data of the RDMA connection exchange, properties, Identify
// data, log pages and features. Names are those of the NVM Express Base Specification (2.0) and of the NVMe RDMA
// Transport Specification (1.0).
//
// # Conventions
//
// A Decode function decodes one structure at the start of a byte slice, which may continue after it. The returned value
// is a copy and does not refer to the input. The only error is [ErrShort]: callers must check whether the values make
// sense. An Encode method fills the caller's buffer for the length of the structure, including reserved fields. It
// panics if the buffer is shorter. Neither allocates. All integers are little-endian on the wire.
//
// A 0's based field keeps its value on the wire if its name is that of the specification (MQES, SQSIZE). It is counted
// from one if its name is in words (Blocks, Ranges, Length).
package capsule

import "errors"

// ErrShort says that the bytes end before the structure does.
var ErrShort = errors.New("capsule: structure is cut short")

// InRange reports whether n units starting at off lie within size units. It cannot overflow, so all arguments may come
// from a peer.
func InRange(off, n, size uint64) bool {
	return n <= size && off <= size-n
}
