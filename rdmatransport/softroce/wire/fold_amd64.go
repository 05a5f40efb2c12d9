package wire

import "golang.org/x/sys/cpu"

// canFold says that the processor has what fold needs.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// fold reduces n bytes at p, a multiple of foldBlock and at least that, which come
// after crc, to 64 bytes: crc32.Update of these, from foldedCRC, is what it would be
// of all. hash/crc32 has one chain of dependent multiplications here and this has
// four: 4 KiB take some 40 instead of 100 ns.
//
//go:noescape
func fold(rest *[64]byte, crc uint32, p *byte, n int)
