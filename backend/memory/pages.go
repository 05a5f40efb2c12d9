package memory

import (
	"math/bits"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// pageShift is of the unit in which use is counted. The operating system's
// pages may be larger.
const pageShift = 12

// pages notes which 4 KiB of the store are in use. Bits of a unit are changed
// under an exclusive hold of its blocks only, but share words with others.
type pages struct {
	words []atomic.Uint64
	count atomic.Int64 // of set bits
}

func newPages(size int64) pages {
	units := (size + 1<<pageShift - 1) >> pageShift
	return pages{words: make([]atomic.Uint64, (units+63)/64)}
}

func (p *pages) bytes() int64 { return p.count.Load() << pageShift }

// eachWord calls f with every word of the units that the range touches, and
// the bits that are theirs.
func (p *pages) eachWord(offset, length int64, f func(word *atomic.Uint64, mask uint64)) {
	if length <= 0 {
		return
	}
	first, last := uint64(offset)>>pageShift, uint64(offset+length-1)>>pageShift
	for i := first / 64; i <= last/64; i++ {
		mask := ^uint64(0)
		if i == first/64 {
			mask <<= first % 64
		}
		if i == last/64 {
			mask &= ^uint64(0) >> (63 - last%64)
		}
		f(&p.words[i], mask)
	}
}

// set marks the range as in use.
func (p *pages) set(offset, length int64) {
	p.eachWord(offset, length, func(word *atomic.Uint64, mask uint64) {
		if word.Load()&mask == mask {
			return
		}
		if old := word.Or(mask); old&mask != mask {
			p.count.Add(int64(bits.OnesCount64(mask &^ old)))
		}
	})
}

// clear marks the range as free.
func (p *pages) clear(offset, length int64) {
	p.eachWord(offset, length, func(word *atomic.Uint64, mask uint64) {
		if old := word.And(^mask); old&mask != 0 {
			p.count.Add(-int64(bits.OnesCount64(old & mask)))
		}
	})
}

// any reports whether something of the range is in use.
func (p *pages) any(offset, length int64) bool {
	found := false
	p.eachWord(offset, length, func(word *atomic.Uint64, mask uint64) {
		found = found || word.Load()&mask != 0
	})
	return found
}

// zero makes a range, held exclusively, read as zero. What was never written
// does so already, and writing zeroes to it would populate it.
func (s *Store) zero(offset, length int64) {
	for length > 0 {
		unit := int64(1<<pageShift) - offset&(1<<pageShift-1)
		n := min(unit, length)
		if s.used.any(offset, n) {
			clear(s.memory[offset : offset+n])
		}
		offset, length = offset+n, length-n
	}
}

// free makes a range, held exclusively, read as zero and gives its whole pages
// back to the operating system.
func (s *Store) free(offset, length int64) {
	page := int64(os.Getpagesize())
	first, end := (offset+page-1)&^(page-1), (offset+length)&^(page-1)
	if s.pinned || first >= end || !s.used.any(first, end-first) {
		s.zero(offset, length)
		return
	}
	s.zero(offset, first-offset)
	s.zero(end, offset+length-end)
	if err := unix.Madvise(s.memory[first:end], unix.MADV_DONTNEED); err != nil {
		s.zero(first, end-first) // locked in memory, by mlockall(2) say
		return
	}
	s.used.clear(first, end-first)
}
