package discoverylog

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Fill fills b with the page from an offset, and returns the length of the whole page, which is never allocated
// since it may be long. The first record is that of the discovery service itself. A host that reads the page in
// parts compares the generation, which changes with the log.
func Fill(b []byte, offset uint64, first Record, rest []Record, generation uint64, local netip.Addr) (length uint64) {
	count := 1 + uint64(len(rest))
	length = capsule.DiscoveryHeaderSize + count*capsule.DiscoveryEntrySize
	var part [capsule.DiscoveryEntrySize]byte
	for offset < length && len(b) > 0 {
		i := offset / capsule.DiscoveryEntrySize // the header is as long as an entry
		clear(part[:])
		if i == 0 {
			capsule.DiscoveryHeader{GENCTR: generation, NUMREC: count}.Encode(part[:])
		} else {
			r := &first
			if i > 1 {
				r = &rest[i-2]
			}
			e := r.Entry(local)
			e.Encode(part[:])
		}
		n := copy(b, part[offset%capsule.DiscoveryEntrySize:])
		b, offset = b[n:], offset+uint64(n)
	}
	return length
}
