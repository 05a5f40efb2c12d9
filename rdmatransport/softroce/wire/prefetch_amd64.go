package wire

// prefetchLines is how many cache lines are asked for: by then the processor has
// seen where reading goes, and asks for the rest of the page itself.
const prefetchLines = 16

// Prefetch asks the processor for the beginning of b, which will be read soon. It
// changes nothing else.
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
