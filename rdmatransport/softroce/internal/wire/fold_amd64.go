package wire

import "golang.org/x/sys/cpu"

// canFold says that the processor has what fold needs.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// fold is crc32.Update over two pieces of memory, k bytes at head and n bytes at p:
// both multiples of 64, the first not zero, the second zero or at least 256. hash/crc32 has
// one chain of dependent multiplications where this has four, and takes bytes that
// are fewer than 64 one by one.
//
//go:noescape
func fold(crc uint32, head *byte, k int, p *byte, n int) uint32
