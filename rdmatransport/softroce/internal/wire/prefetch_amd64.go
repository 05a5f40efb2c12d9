package wire

// prefetchLines is the maximum number of cache lines to prefetch: the largest payload.
const prefetchLines = 4096 / 64

// Prefetch prefetches b, the payload of a packet, or its beginning.
func Prefetch(b []byte) {
	if n := min(len(b)/64, prefetchLines); n > 0 {
		prefetch(&b[0], n)
	}
}

// prefetch prefetches a positive number of lines starting at p. The lines may extend past b: the instruction never
// faults.
//
//go:noescape
func prefetch(p *byte, lines int)
