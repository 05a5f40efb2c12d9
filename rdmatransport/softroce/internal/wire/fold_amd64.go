package wire

import "golang.org/x/sys/cpu"

// canFold reports whether the processor supports the instructions of fold.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// fold is crc32.Update over two pieces of memory, k bytes at head and n bytes at p. Both lengths are multiples of 64;
// k is not zero, and n is zero or at least 256. hash/crc32 has one chain of dependent multiplications where fold has
// four, and processes a remainder of less than 64 bytes byte by byte.
//
//go:noescape
func fold(crc uint32, head *byte, k int, p *byte, n int) uint32
