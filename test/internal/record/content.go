package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A Block identifies a block by its namespace, a number chosen by the caller, and its index there.
type Block struct {
	Space uint32
	Index uint64
}

const (
	magic      = 0x4b414f53 // "SOAK"
	headerSize = 28
	sumSize    = 4
)

// Fill sets p, of at least 64 bytes, to the content of a block after the write with this number. Number 0 gives zeroes:
// the block was never written.
func Fill(p []byte, at Block, number uint64) {
	if number == 0 {
		clear(p)
		return
	}
	binary.LittleEndian.PutUint32(p, magic)
	binary.LittleEndian.PutUint32(p[4:], at.Space)
	binary.LittleEndian.PutUint64(p[8:], at.Index)
	binary.LittleEndian.PutUint64(p[16:], number)
	binary.LittleEndian.PutUint32(p[24:], uint32(len(p)))
	body, x := p[headerSize:len(p)-sumSize], number*0x9e3779b97f4a7c15^at.Index<<20^uint64(at.Space)|1
	for ; len(body) >= 8; body = body[8:] {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(body, x)
	}
	clear(body)
	binary.LittleEndian.PutUint32(p[len(p)-sumSize:], checksum(p))
}

func checksum(p []byte) uint32 {
	return crc32.Checksum(p[:len(p)-sumSize], crc32.MakeTable(crc32.Castagnoli))
}

// Parse returns the number of the write whose content p is. The error says what p is instead: a mixture of two writes,
// or content of another block.
func Parse(p []byte, at Block) (uint64, error) {
	if zero(p) {
		return 0, nil
	}
	if m := binary.LittleEndian.Uint32(p); m != magic {
		return 0, fmt.Errorf("begins with % x, which nobody wrote", p[:headerSize])
	}
	is := Block{binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint64(p[8:])}
	number := binary.LittleEndian.Uint64(p[16:])
	if is != at {
		return 0, fmt.Errorf("has write %d of block %d of namespace %d", number, is.Index, is.Space)
	}
	if n := binary.LittleEndian.Uint32(p[24:]); int(n) != len(p) {
		return 0, fmt.Errorf("has write %d of a block of %d bytes", number, n)
	}
	if checksum(p) != binary.LittleEndian.Uint32(p[len(p)-sumSize:]) {
		want := make([]byte, len(p))
		Fill(want, at, number)
		first, last := -1, 0
		for i := range p {
			if p[i] != want[i] {
				if last = i; first < 0 {
					first = i
				}
			}
		}
		return 0, fmt.Errorf("begins as write %d and is not that from byte %d to byte %d: % x instead of % x",
			number, first, last, p[first:min(first+16, len(p))], want[first:min(first+16, len(p))])
	}
	return number, nil
}

func zero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
