package shard

import "github.com/nvmeof-go/nvmeof/nvmeof/internal/list"

// A Share is one party's part of an arena: for example, of a host with all its connections. It bounds what the party
// may hold, for however long. Buffers for which parties wait are given to each party in turn. A Share is embedded in
// the party's own structure and must not be copied once it is open.
//
// A party may hold no more bytes than it leaves free. A single party can hold half of the arena and two active parties
// a third each. If parties give nothing back, each further one can take at most half of what is left, so a late party
// still gets something. A party that holds nothing does not wait for the others' turns while an eighth of the arena is
// free: a party with one command at a time is not delayed by parties with hundreds.
type Share struct {
	arena   *Arena
	whole   bool // it may hold all of the arena
	held    int  // bytes
	credit  int  // bytes that it may still be given in its turn
	waiters list.List[BufferWaiter]
	link    list.Link[Share] // in arena.line, while it has waiters
}

// turnBytes is how many bytes a party is given per turn while others wait. Credit for a larger buffer accumulates over
// several turns (deficit round robin).
const turnBytes = 64 << 10

// Open makes s a share of an arena, which holds nothing.
func (s *Share) Open(a *Arena) { *s = Share{arena: a} }

// Arena returns the arena of the share.
func (s *Share) Arena() *Arena { return s.arena }

// Held returns the size of the party's buffers in bytes.
func (s *Share) Held() int { return s.held }

// Alloc allocates a buffer of at least size bytes, at most [MaxBuffer]. It fails if no block is free, if the party may
// not hold more now, if it already waits for a buffer, and mostly if others wait.
func (s *Share) Alloc(size int) (Buffer, bool) {
	a := s.arena
	switch {
	case s.waiters.First() != nil, s.held > 0 && !s.may(blockOf(size)):
		return Buffer{}, false
	case a.line.First() != nil && (s.held > 0 || a.free < len(a.mem)/8):
		return Buffer{}, false
	}
	return s.take(size)
}

// may reports whether the party may hold n more bytes.
func (s *Share) may(n int) bool { return s.whole || s.held+n <= s.arena.free }

func (s *Share) take(size int) (Buffer, bool) {
	b, ok := s.arena.take(size)
	if ok {
		b.share = s
		s.held += len(b.b)
	}
	return b, ok
}

// blockOf returns the size of the block that holds a buffer of size bytes.
func blockOf(size int) int { return PageSize << orderOf(size) }

// Wait queues w for a buffer of at least size bytes after an Alloc that failed. It is served after the party's earlier
// waiters.
func (s *Share) Wait(w *BufferWaiter, size int) {
	if w.Waiting() {
		panic("arena: waiter is queued twice")
	}
	orderOf(size) // panics for a size that is never available
	w.share, w.size = s, size
	s.waiters.Push(w, &w.link)
	a := s.arena
	if !s.link.Linked() {
		a.line.Push(s, &s.link)
		a.queued++
	}
	a.ready = true
}

// drop removes a waiter.
func (s *Share) drop(w *BufferWaiter) {
	a := s.arena
	s.waiters.Remove(&w.link)
	if a.short == s {
		a.short = nil // the party's next waiter may want less, or more
	}
	if s.waiters.First() == nil {
		a.line.Remove(&s.link)
		a.queued--
		s.credit = 0
	}
	a.ready = a.line.First() != nil
}

// Serve gives buffers to the waiters, to each party in turn and in order within a party. It reports whether any waiter
// got one. The shard calls it for its arenas in each turn. The owner of another arena calls it after Release, but not
// from Ready.
func (a *Arena) Serve() bool {
	if !a.ready {
		return false
	}
	a.ready = false
	served := false
	if a.short != nil {
		served = a.short.turn()
	}
	for left := a.queued; left > 0; left-- { // until a whole round has served no waiter
		s := a.line.First()
		if s.turn() {
			served = true
			left = a.queued + 1
		}
		if a.line.First() == s {
			a.line.Remove(&s.link)
			a.line.Push(s, &s.link)
		}
	}
	return served
}

// turn is a party's turn. It reports whether it served a waiter or the party can be served in a later turn.
//
// While no block is available for the party whose turn it is, parties that hold something wait too. Otherwise small
// buffers could keep a large block from ever becoming free.
func (s *Share) turn() (useful bool) {
	a := s.arena
	given := a.short == s // it has its credit for this turn: none accumulates while there is no memory
	for w := s.waiters.First(); w != nil; w = s.waiters.First() {
		n := blockOf(w.size)
		if s.held > 0 && !s.may(n) {
			if a.short == s {
				a.short = nil // others do not wait for a party that may hold no more
			}
			return useful
		}
		if s.held > 0 && a.short != nil && a.short != s {
			return useful
		}
		if !given {
			s.credit, given = s.credit+turnBytes, true
		}
		if s.credit < n {
			return true
		}
		b, ok := s.take(w.size)
		if !ok {
			switch {
			case a.short == nil:
				a.short = s
			case a.short != s && !useful:
				s.credit -= turnBytes
			}
			return useful
		}
		s.credit -= n
		s.drop(w)
		w.Ready(b)
		useful = true
	}
	return useful
}
