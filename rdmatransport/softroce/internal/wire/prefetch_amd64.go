package wire

// prefetchLines is how many cache lines are asked for: the largest payload.
const prefetchLines = 4096 / 64

// Prefetch asks the processor for b, or its beginning, which will be read soon: the
// payload of a packet. It changes nothing else.
func Prefetch(b []byte) {
	if n := min(len(b)/64, prefetchLines); n > 0 {
		prefetch(&b[0], n)
	}
}

// prefetch asks for a positive number of lines from p on, wherever they may end:
// the instruction never faults.
//
//go:noescape
func prefetch(p *byte, lines int)
