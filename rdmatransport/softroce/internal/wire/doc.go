// Package wire encodes and decodes what a RoCEv2 endpoint sends in UDP datagrams on port 4791: the base transport
// header (BTH) and its extensions, the opcode table, packet sequence numbers, the invariant CRC (ICRC), and the
// management datagrams (MADs) of the connection manager.
//
// The package has no state. Decoding copies header fields and sub-slices the payload; encoding appends to the
// caller's buffer. All multi-byte fields are big-endian on the wire, except the ICRC.
//
// Clause numbers are those of the InfiniBand Architecture Specification volume
// 1, release 1.4 ("IBTA"), and of its annex A17 for RoCEv2.
//
// Not supported: the transport services RD, UC and XRC, the payload of datagrams to other than management queue
// pairs, the FLUSH and ATOMIC WRITE operations, MAD classes other than communication management, service ID
// resolution (SIDR) and path migration (LAP, APR).
package wire

// Port is the UDP destination port of RoCEv2 (IBTA A17.2).
const Port = 4791

// InRange reports whether n bytes at offset off lie within size bytes.
func InRange(off, n, size uint64) bool { return n <= size && off <= size-n }
