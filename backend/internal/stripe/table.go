// Package stripe keeps, for the stores of package backend, the promise that no
// logical block is seen half written.
//
// A [Table] has one atomic word for each 4 KiB of a store; stores of more than
// 1 GiB share words between places that lie far apart. An operation takes the
// words it touches, shared to read and exclusively to write, all of them or
// none, without ever blocking. A loser tries again later; a [Waiter] says when
// that is worth while, and an Order of package backend keeps losers of one queue in the
// order of their submission.
//
// Readers that overlap each other without end do not starve a writer: a writer
// that they refuse leaves a mark that turns new readers away until it had its
// turn. The mark wears off if the writer does not come back. Writers do not
// starve readers either, since a mark against readers is left only where
// readers were in the way. Among writers chance decides.
package stripe

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	granule    = 4096    // bytes guarded by one word
	maxStripes = 1 << 18 // 1 MiB of words
)

// A word is free when zero. It counts its readers, or has the exclusive bit;
// the bits between count how many more readers to turn away for a writer.
const (
	reader       uint32 = 1
	readersMask  uint32 = 1<<16 - 1
	refusalOne   uint32 = 1 << 16
	refusalMask  uint32 = exclusiveBit - refusalOne
	exclusiveBit uint32 = 1 << 31

	// maxRefusals is how often readers are turned away from a free stripe before
	// the writer that waits for it is given up: many turns of a polling loop,
	// some milliseconds.
	maxRefusals = 8192 * refusalOne
)

// Outcome is what became of an attempt.
type Outcome uint8

const (
	Taken   Outcome = iota
	Held            // by others, whose release wakes armed waiters
	Yielded         // free, but left to a writer for now: try again soon
)

// Table guards one store. Its methods may be called from any goroutine.
type Table struct {
	words []atomic.Uint32 // a power of two

	armed   atomic.Int32 // waiters to be woken by the next release
	mu      sync.Mutex   // joining and leaving
	waiters atomic.Pointer[[]*Waiter]
}

// New returns a table for a store of size bytes.
func New(size int64) *Table { return newTable(make([]atomic.Uint32, wordsFor(size))) }

// Bytes is how much memory the words of a store of size bytes take.
func Bytes(size int64) int64 { return int64(wordsFor(size)) * int64(unsafe.Sizeof(atomic.Uint32{})) }

// NewIn is New with the words in memory of the caller's, Bytes(size) of it, zeroed and
// aligned to words, which stays as long as the table. Pages of a mapping are taken only
// when a word in them is.
func NewIn(size int64, memory []byte) *Table {
	_ = memory[Bytes(size)-1]
	return newTable(unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(memory))), wordsFor(size)))
}

func wordsFor(size int64) int {
	n := 1
	for int64(n)*granule < size && n < maxStripes {
		n *= 2
	}
	return n
}

func newTable(words []atomic.Uint32) *Table {
	t := &Table{words: words}
	t.waiters.Store(new([]*Waiter))
	return t
}

// span is the words of a byte range: [lo, hi) and, where the range continues at
// the table's start, [0, wrapped).
type span struct{ wrapped, lo, hi uint64 }

func (t *Table) span(offset, length int64) span {
	if length <= 0 {
		return span{}
	}
	first, last := uint64(offset)/granule, uint64(offset+length-1)/granule
	size, n := uint64(len(t.words)), last-first+1
	if n >= size {
		return span{hi: size}
	}
	lo := first & (size - 1)
	hi := lo + n
	if hi > size {
		return span{wrapped: hi - size, lo: lo, hi: size}
	}
	return span{lo: lo, hi: hi}
}

// Try takes the words of length bytes at offset, all or none.
func (t *Table) Try(offset, length int64, exclusive bool) Outcome {
	s := t.span(offset, length)
	// Ascending, so that of two overlapping attempts one succeeds.
	out := t.take(0, s.wrapped, exclusive)
	if out != Taken {
		t.refused(s, exclusive)
		return out
	}
	if out = t.take(s.lo, s.hi, exclusive); out != Taken {
		if s.wrapped > 0 {
			t.drop(0, s.wrapped, exclusive)
			t.Wake()
		}
		t.refused(s, exclusive)
	}
	return out
}

// Share reports whether two ranges have a word in common, so that no one can hold
// both but exclusively.
func (t *Table) Share(offset1, length1, offset2, length2 int64) bool {
	a, b := t.span(offset1, length1), t.span(offset2, length2)
	meet := func(lo1, hi1, lo2, hi2 uint64) bool { return lo1 < hi2 && lo2 < hi1 }
	return meet(a.lo, a.hi, b.lo, b.hi) || meet(0, a.wrapped, 0, b.wrapped) ||
		meet(0, a.wrapped, b.lo, b.hi) || meet(a.lo, a.hi, 0, b.wrapped)
}

// Release gives back what Try took with the same arguments.
func (t *Table) Release(offset, length int64, exclusive bool) {
	s := t.span(offset, length)
	t.drop(0, s.wrapped, exclusive)
	t.drop(s.lo, s.hi, exclusive)
	t.Wake()
}

func (t *Table) take(lo, hi uint64, exclusive bool) Outcome {
	// A look first: taking words only to give them back delays
	// others, and wakes them for nothing.
	if hi-lo > 1 && t.held(lo, hi, exclusive) {
		return Held
	}
	for i := lo; i < hi; i++ {
		out := Taken
		if exclusive {
			out = takeExclusive(&t.words[i])
		} else {
			out = takeShared(&t.words[i])
		}
		if out != Taken {
			if i > lo {
				t.drop(lo, i, exclusive)
				t.Wake()
			}
			return out
		}
	}
	return Taken
}

// held reports whether an attempt would fail now.
func (t *Table) held(lo, hi uint64, exclusive bool) bool {
	blockers := exclusiveBit
	if exclusive {
		blockers |= readersMask
	}
	for i := lo; i < hi; i++ {
		if t.words[i].Load()&blockers != 0 {
			return true
		}
	}
	return false
}

func (t *Table) drop(lo, hi uint64, exclusive bool) {
	for i := lo; i < hi; i++ {
		if exclusive {
			t.words[i].Store(0)
		} else {
			t.words[i].Add(^uint32(0)) // one reader less
		}
	}
}

func takeExclusive(word *atomic.Uint32) Outcome {
	for {
		w := word.Load()
		if w&^refusalMask != 0 {
			return Held
		}
		if word.CompareAndSwap(w, exclusiveBit) {
			return Taken
		}
	}
}

func takeShared(word *atomic.Uint32) Outcome {
	for {
		w := word.Load()
		readers := w & readersMask
		switch {
		case w&exclusiveBit != 0 || readers == readersMask:
			return Held
		case w&refusalMask == 0:
			if word.CompareAndSwap(w, w+reader) {
				return Taken
			}
		case readers > 0:
			return Held
		case word.CompareAndSwap(w, w-refusalOne):
			return Yielded
		}
	}
}

// refused follows an attempt that failed: a writer marks the words that readers
// keep from it.
func (t *Table) refused(s span, exclusive bool) {
	if exclusive {
		t.mark(0, s.wrapped)
		t.mark(s.lo, s.hi)
	}
}

func (t *Table) mark(lo, hi uint64) {
	for i := lo; i < hi; i++ {
		w := t.words[i].Load()
		if w == 0 || w&exclusiveBit != 0 {
			continue
		}
		// Losing the race leaves the mark to the next attempt.
		t.words[i].CompareAndSwap(w, w&readersMask|maxRefusals)
	}
}

// Free reports whether nothing is held. It is for tests: what it sees may
// change at once.
func (t *Table) Free() bool {
	return !t.held(0, uint64(len(t.words)), true)
}
