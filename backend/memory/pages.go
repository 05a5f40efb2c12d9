package memory

import (
	"math/bits"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// pageShift is the binary logarithm of the unit in which use is counted. The operating system's pages may be larger.
const pageShift = 12

// pages records which 4 KiB units of the store are in use. A unit's bit changes only while its blocks are held
// exclusively, but shares its word with other units.
type pages struct {
	words []atomic.Uint64
	count atomic.Int64 // number of set bits
}

func newPages(size int64) pages {
	return pages{words: make([]atomic.Uint64, wordsOf(size))}
}

// wordsOf returns the number of words for a store of that size.
func wordsOf(size int64) int {
	return int((uint64(size) + 64<<pageShift - 1) >> pageShift / 64)
}

// recount counts the set bits of words that another process has left.
func (p *pages) recount() {
	n := 0
	for i := range p.words {
		n += bits.OnesCount64(p.words[i].Load())
	}
	p.count.Store(int64(n))
}

func (p *pages) bytes() int64 { return p.count.Load() << pageShift }

// eachWord calls f for every word that covers units of the range, with the bits of those units.
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

// set marks the range as used.
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

// any reports whether any part of the range is in use.
func (p *pages) any(offset, length int64) bool {
	found := false
	p.eachWord(offset, length, func(word *atomic.Uint64, mask uint64) {
		found = found || word.Load()&mask != 0
	})
	return found
}

// run returns the first part of a range that is in use, cut to the range. n is 0 if nothing is in use.
func (p *pages) run(offset, length int64) (at, n int64) {
	unit, end := uint64(offset)>>pageShift, (uint64(offset+length-1)>>pageShift)+1
	first := uint64(0)
	for free := true; unit < end; {
		w := p.words[unit/64].Load()
		if !free {
			w = ^w
		}
		skip := uint64(bits.TrailingZeros64(w >> (unit % 64)))
		if skip = min(skip, 64-unit%64); skip == 64-unit%64 {
			unit += skip
			continue
		}
		if unit += skip; !free || unit >= end {
			break
		}
		first, free = unit+1, false // counted from 1
	}
	if first == 0 {
		return 0, 0
	}
	at = max(offset, int64(first-1)<<pageShift)
	return at, min(offset+length, int64(min(unit, end))<<pageShift) - at
}

// region is the size of a huge page, on systems that have them.
const region = 2 << 20

// keepTime is how long the pages of a region are only zeroed and kept after some of the region was given back to the
// operating system. A host that frees and writes the same blocks in turn would otherwise delay all others by page
// faults, and by the interrupts that invalidate the mappings on every processor.
const keepTime = time.Second

// A returned holds when pages of a region were last given back, as nanoseconds since the store was opened. The lowest
// bit instead says whether other free pages of the region were kept. It is advisory: concurrent changes may lose one of
// them.
type returned struct{ v atomic.Uint64 }

const hasKept = 1

func (h *returned) lately(now time.Duration) bool {
	v := h.v.Load() &^ hasKept
	return v != 0 && now-time.Duration(v) < keepTime
}

func (h *returned) kept() bool { return h.v.Load()&hasKept != 0 }
func (h *returned) keep()      { h.v.Or(hasKept) }

// freed records that part of the region, or all of it, was given back.
func (h *returned) freed(now time.Duration, all bool) {
	next := uint64(max(now, 2)) &^ hasKept
	if !all {
		next |= h.v.Load() & hasKept
	}
	h.v.Store(next)
}

// next returns the next part of a range to be zeroed or freed. The part lies in one region. Ranges that are not in use
// are skipped. at+n is how far next has looked.
func (s *Store) next(offset, length int64, free bool) (at, n int64) {
	var now time.Duration
	if free {
		now = s.age()
	}
	end := offset + min(length, scanStep)
	for at = offset; at < end; {
		i := at / region
		last := min((i+1)*region, s.info.Size)
		if whole := at == i*region && last <= end; free && !s.pinned && whole && !s.regions[i].lately(now) && (s.regions[i].kept() || s.used.any(at, last-at)) {
			return at, last - at
		}
		if at, n := s.used.run(at, min(last, end)-at); n > 0 {
			return at, min(n, zeroStep)
		}
		at = min(last, end)
	}
	return end, 0
}

// age returns how long the store has been open.
func (s *Store) age() time.Duration { return time.Since(s.opened) }

// zero makes a range, held exclusively, read as zero. Memory that was never written already does, and writing zeroes
// would populate it.
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

// free makes a range of one region, held exclusively, read as zero. It gives whole pages back to the operating system,
// unless pages of the region were given back a short time ago.
func (s *Store) free(offset, length int64) {
	page := int64(os.Getpagesize())
	first, end := (offset+page-1)&^(page-1), (offset+length)&^(page-1)
	if s.pinned || first >= end {
		s.zero(offset, length)
		return
	}
	s.zero(offset, first-offset)
	s.zero(end, offset+length-end)
	h, now := &s.regions[offset/region], s.age()
	switch {
	case h.lately(now):
		s.zero(first, end-first)
		h.keep()
	case s.giveBack(s.memory[first:end]) != nil:
		s.zero(first, end-first) // for example if locked in memory by mlockall(2)
		return
	default:
		h.freed(now, offset%region == 0 && offset+length == min(offset+region, s.info.Size))
	}
	s.used.clear(first, end-first)
}

// giveBack gives pages back to the operating system, after which they read as zeroes. Pages of a file must be removed
// from the file.
func (s *Store) giveBack(b []byte) error {
	if s.pool != nil {
		return unix.Madvise(b, unix.MADV_REMOVE)
	}
	return unix.Madvise(b, unix.MADV_DONTNEED)
}
