package shard

import "github.com/nvmeof-go/nvmeof/nvmeof/internal/list"

// A Share is one party's part of an arena: of a host with all its connections, say. It
// bounds what a party may hold, however long that keeps it, and gives the buffers for
// which parties wait to each in turn. It is part of whatever stands for the party, and
// must not be copied once it is open.
//
// A party holds no more than it leaves free: one alone up to half of the arena, two that
// come and go a third each, and so on, and of several that give nothing back each takes at
// most half of what the others have left. So one that comes later finds something. One
// that holds nothing does not wait for the others' turns as long as an eighth of the arena
// is free: who has one command at a time is not delayed by those who have a hundred.
type Share struct {
	arena   *Arena
	whole   bool // it may hold all of the arena
	held    int  // bytes
	credit  int  // bytes that it may still be given in its turn
	waiters list.List[BufferWaiter]
	link    list.Link[Share] // in arena.line, while it has waiters
}

// turnBytes is how much a party is given in a turn while others wait. What a larger
// buffer takes is saved up over several turns (deficit round robin).
const turnBytes = 64 << 10

// Open makes it a share of an arena, of which it holds nothing.
func (s *Share) Open(a *Arena) { *s = Share{arena: a} }

// Arena is the arena that the share is of.
func (s *Share) Arena() *Arena { return s.arena }

// Held is how many bytes of buffers the party has.
func (s *Share) Held() int { return s.held }

// Alloc takes a buffer of at least size bytes, at most [MaxBuffer]. It fails when none is
// free, when the party may not hold more now, while it waits for another, and mostly while
// others wait.
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

// may reports whether the party may hold n more bytes beside what it holds.
func (s *Share) may(n int) bool { return s.whole || s.held+n <= s.arena.free }

func (s *Share) take(size int) (Buffer, bool) {
	b, ok := s.arena.take(size)
	if ok {
		b.share = s
		s.held += len(b.b)
	}
	return b, ok
}

// blockOf is how many bytes a buffer for size bytes takes.
func blockOf(size int) int { return PageSize << orderOf(size) }

// Wait queues w for a buffer of at least size bytes behind those of the party that wait
// already: after an Alloc that failed.
func (s *Share) Wait(w *BufferWaiter, size int) {
	if w.Waiting() {
		panic("arena: waiter is queued twice")
	}
	orderOf(size) // refuses a size that would never come
	w.share, w.size = s, size
	s.waiters.Push(w, &w.link)
	a := s.arena
	if !s.link.Linked() {
		a.line.Push(s, &s.link)
		a.queued++
	}
	a.ready = true
}

// drop takes a waiter out.
func (s *Share) drop(w *BufferWaiter) {
	a := s.arena
	s.waiters.Remove(&w.link)
	if a.short == s {
		a.short = nil // its next may want less, or more
	}
	if s.waiters.First() == nil {
		a.line.Remove(&s.link)
		a.queued--
		s.credit = 0
	}
	a.ready = a.line.First() != nil
}

// Serve gives buffers to the waiters, to each party in turn and in order within it, and
// reports whether any got one. The shard calls it for its arenas in each turn; the owner
// of another calls it after Release, but not from Ready.
func (a *Arena) Serve() bool {
	if !a.ready {
		return false
	}
	a.ready = false
	served := false
	if a.short != nil {
		served = a.short.turn()
	}
	for left := a.queued; left > 0; left-- { // until nothing has come of a whole round
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

// turn is a party's turn. It reports whether anything has come of it.
//
// While there is no block for a party whose turn it is, parties that hold something wait
// too, so that small buffers do not keep a large one from ever coming together.
func (s *Share) turn() (useful bool) {
	a := s.arena
	given := a.short == s // what it has for its turn: none is saved up while there is no memory
	for w := s.waiters.First(); w != nil; w = s.waiters.First() {
		n := blockOf(w.size)
		if s.held > 0 && !s.may(n) {
			if a.short == s {
				a.short = nil // others do not wait for one that may hold no more
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
