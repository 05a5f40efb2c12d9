package shard

import "time"

// A Timer calls a function in the loop once after a time. It fires in the first turn after its deadline. It is late by
// one turn, or by a millisecond if no goroutine drives the loop: precise enough for keep-alive and command timeouts. A
// Timer with only Func set is ready to use; it must not be copied while it runs.
type Timer struct {
	Func func()

	at  int64
	pos int // in the heap, from 1; 0: not running
}

// SetTimer starts or restarts t, which fires after d.
func (s *Shard) SetTimer(t *Timer, d time.Duration) {
	s.StopTimer(t)
	t.at = s.cq.Now() + int64(d)
	s.timers.add(t)
}

// StopTimer keeps t from firing.
func (s *Shard) StopTimer(t *Timer) {
	if t.pos != 0 {
		s.timers.remove(t)
	}
}

// Running reports whether t is going to fire.
func (t *Timer) Running() bool { return t.pos != 0 }

// A timerHeap is a binary heap with the earliest timer first.
type timerHeap []*Timer

// next returns the time until the first timer expires, or a negative number if there is none.
func (h timerHeap) next(now int64) int64 {
	if len(h) == 0 {
		return -1
	}
	return max(0, h[0].at-now)
}

// run calls the functions of expired timers. A function may set its timer again, or stop others.
func (h *timerHeap) run(now int64) bool {
	fired := false
	for len(*h) > 0 && (*h)[0].at <= now {
		t := (*h)[0]
		h.remove(t)
		t.Func()
		fired = true
	}
	return fired
}

func (h *timerHeap) add(t *Timer) {
	*h = append(*h, t)
	t.pos = len(*h)
	h.up(t.pos - 1)
}

func (h *timerHeap) remove(t *Timer) {
	i, last := t.pos-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.pos = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i+1, j+1
}

func (h timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if h[i].at <= h[child].at {
			return
		}
		h.swap(i, child)
		i = child
	}
}
