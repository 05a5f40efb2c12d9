package nbd

import "math/bits"

const pageSize = 4096

// pages tracks which pages of a memory are in use. It allocates the lowest ones first, so that clients that need little
// touch little memory.
type pages struct {
	used  []uint64 // a bit for each page
	count int
}

func newPages(bytes int) pages {
	n := bytes / pageSize
	p := pages{used: make([]uint64, (n+63)/64), count: n}
	for i := n; i < 64*len(p.used); i++ { // beyond the end
		p.used[i/64] |= 1 << (i % 64)
	}
	return p
}

// alloc allocates n contiguous pages, and returns the first, or -1.
func (p *pages) alloc(n int) int {
	first := p.find(n)
	if first >= 0 {
		for i := first; i < first+n; i++ {
			p.used[i/64] |= 1 << (i % 64)
		}
	}
	return first
}

func (p *pages) find(n int) int {
	run := 0
	for i := 0; i < p.count; {
		word := p.used[i/64] >> (i % 64)
		if word&1 != 0 {
			run = 0
			i += bits.TrailingZeros64(^word)
			continue
		}
		free := min(bits.TrailingZeros64(word), 64-i%64)
		if run+free >= n {
			return i - run
		}
		run += free
		i += free
	}
	return -1
}

func (p *pages) free(first, n int) {
	for i := first; i < first+n; i++ {
		p.used[i/64] &^= 1 << (i % 64)
	}
}
