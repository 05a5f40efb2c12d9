// Package stripe ensures, for the stores of package backend, that no logical block is seen half written.
//
// A [Table] has one atomic word for each 4 KiB of a store; in a store of more than 1 GiB, distant places share words.
// An operation takes the words of its range, shared for reading and exclusively for writing. It takes all of them or
// none, and never blocks. If it fails it is tried again later. A [Waiter] says when that is worthwhile, and an Order of
// package backend keeps the waiting operations of one queue in the order of their submission.
//
// Readers that overlap continuously do not starve a writer: a refused writer leaves a mark that turns away new readers
// until the writer has succeeded. The mark expires if the writer does not return. Writers do not starve readers either,
// since a mark is left only where readers were in the way. Among writers the order is random.
package stripe

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	granule    = 4096    // bytes that one word guards
	maxStripes = 1 << 18 // 1 MiB of words
)

// A free word is zero. A word that is held has the number of its readers or the exclusive bit. The bits in between hold
// the number of readers that are still to be turned away for a writer.
const (
	reader       uint32 = 1
	readersMask  uint32 = 1<<16 - 1
	refusalOne   uint32 = 1 << 16
	refusalMask  uint32 = exclusiveBit - refusalOne
	exclusiveBit uint32 = 1 << 31

	// maxRefusals is how often readers are turned away from a free stripe before the waiting writer is given up: many
	// turns of a polling loop, some milliseconds.
	maxRefusals = 8192 * refusalOne
)

// Outcome is the result of an attempt.
type Outcome uint8

const (
	Taken   Outcome = iota
	Held            // by another operation, whose release wakes armed waiters
	Yielded         // free, but reserved for a writer for now: try again soon
)

// Table guards one store. Any goroutine may call its methods.
type Table struct {
	words []atomic.Uint32 // a power of two of them

	armed   atomic.Int32 // waiters to be woken by the next release
	mu      sync.Mutex   // serializes Join and Leave
	waiters atomic.Pointer[[]*Waiter]
}

// New returns a table for a store of size bytes.
func New(size int64) *Table { return newTable(make([]atomic.Uint32, wordsFor(size))) }

// Bytes returns the size of the words for a store of size bytes.
func Bytes(size int64) int64 { return int64(wordsFor(size)) * int64(unsafe.Sizeof(atomic.Uint32{})) }

// NewIn is like New, with the words in the caller's memory: Bytes(size) bytes, zeroed and aligned to words, which must
// stay valid as long as the table. A page of a mapping is populated only when one of its words is used.
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

// span is the words of a byte range: [lo, hi) and, if the range wraps around at the end of the table, [0, wrapped).
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

// Try takes the words of length bytes at offset, all or none of them.
func (t *Table) Try(offset, length int64, exclusive bool) Outcome {
	s := t.span(offset, length)
	// In ascending order, so that one of two overlapping attempts succeeds.
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

// Share reports whether two ranges have a word in common. Such ranges cannot both be held, unless both are held shared.
func (t *Table) Share(offset1, length1, offset2, length2 int64) bool {
	a, b := t.span(offset1, length1), t.span(offset2, length2)
	meet := func(lo1, hi1, lo2, hi2 uint64) bool { return lo1 < hi2 && lo2 < hi1 }
	return meet(a.lo, a.hi, b.lo, b.hi) || meet(0, a.wrapped, 0, b.wrapped) ||
		meet(0, a.wrapped, b.lo, b.hi) || meet(a.lo, a.hi, 0, b.wrapped)
}

// Release releases what Try took with the same arguments.
func (t *Table) Release(offset, length int64, exclusive bool) {
	s := t.span(offset, length)
	t.drop(0, s.wrapped, exclusive)
	t.drop(s.lo, s.hi, exclusive)
	t.Wake()
}

func (t *Table) take(lo, hi uint64, exclusive bool) Outcome {
	// Check first: taking words only to release them again delays other operations and wakes them for nothing.
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

// refused is called after a failed attempt. A writer marks the words that readers keep from it.
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
		// If the word has changed, the next attempt leaves the mark.
		t.words[i].CompareAndSwap(w, w&readersMask|maxRefusals)
	}
}

// Free reports whether nothing is held. It is for tests: the result may be outdated at once.
func (t *Table) Free() bool {
	return !t.held(0, uint64(len(t.words)), true)
}
