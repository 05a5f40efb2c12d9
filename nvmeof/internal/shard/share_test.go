package shard

import (
	"testing"
)

// A taker is a party that wants buffers of one size, a number of them at a time, and frees each when the test says.
type taker struct {
	share   Share
	size    int
	waiters []BufferWaiter
	held    []Buffer
	got     int
}

// newTaker returns a taker that wants outstanding buffers at a time.
func newTaker(a *Arena, size, outstanding int) *taker {
	k := &taker{size: size, waiters: make([]BufferWaiter, outstanding)}
	k.share.Open(a)
	for i := range k.waiters {
		k.waiters[i].Ready = k.take
	}
	return k
}

func (k *taker) take(b Buffer) {
	k.held = append(k.held, b)
	k.got++
}

// fill has all outstanding requests held or waiting.
func (k *taker) fill() {
	waiting := 0
	for i := range k.waiters {
		if k.waiters[i].Waiting() {
			waiting++
		}
	}
	for i := range k.waiters {
		if w := &k.waiters[i]; !w.Waiting() && waiting+len(k.held) < len(k.waiters) {
			if b, ok := k.share.Alloc(k.size); ok {
				k.take(b)
			} else {
				k.share.Wait(w, k.size)
				waiting++
			}
		}
	}
}

// giveAll frees what it holds.
func (k *taker) giveAll(a *Arena) {
	for _, b := range k.held {
		a.Release(b)
	}
	k.held = k.held[:0]
}

// jain returns Jain's fairness index, which is 1 if all have the same.
func jain(ks []*taker) float64 {
	sum, squares := 0.0, 0.0
	for _, k := range ks {
		sum += float64(k.got)
		squares += float64(k.got) * float64(k.got)
	}
	return sum * sum / (float64(len(ks)) * squares)
}

// TestSharesAreEqual: parties that want as much as they can get receive the same number of bytes, whatever the number
// and size of their outstanding buffers.
func TestSharesAreEqual(t *testing.T) {
	for _, parties := range []int{2, 16, 256} {
		a := newArena(t, 4<<20)
		var ks []*taker
		for i := range parties {
			outstanding := []int{32, 64, 96, 128}[i%4]
			if parties == 256 && i%2 == 0 {
				outstanding = 1
			}
			ks = append(ks, newTaker(a, 128<<10, outstanding))
		}
		for range 10 * parties { // a turn of the shard: half of what is held is freed
			for _, k := range ks {
				k.fill()
			}
			a.Serve()
			for _, k := range ks {
				for n := (len(k.held) + 1) / 2; n > 0; n-- {
					a.Release(k.held[0])
					k.held = k.held[1:]
				}
			}
			a.Serve()
		}
		if j := jain(ks); j < 0.98 {
			t.Errorf("%d parties: fairness %.3f", parties, j)
		}
	}
	a := newArena(t, 4<<20)
	small, large := newTaker(a, 4<<10, 1000), newTaker(a, 512<<10, 16)
	for range 2000 {
		small.fill()
		large.fill()
		small.giveAll(a)
		large.giveAll(a)
		a.Serve()
	}
	if r := float64(small.got) / float64(128*large.got); r < 0.5 || r > 2 {
		t.Errorf("%d buffers of 4 KiB and %d of 512 KiB", small.got, large.got)
	}
}

// TestExcusedMakesRoom: a party that may hold no more gets the buffer for which it waits once buffers of its own are
// excused, although none is freed.
func TestExcusedMakesRoom(t *testing.T) {
	a := newArena(t, 4<<20)
	k := newTaker(a, 1<<20, 3)
	k.fill()
	if a.Serve(); k.got != 2 {
		t.Fatalf("%d buffers of an arena of four, want half of it", k.got)
	}
	k.held[0] = k.held[0].Excuse()
	if a.Serve(); k.got != 3 {
		t.Error("a party waits for ever for what it may have")
	}
	if k.giveAll(a); a.Free() != 4<<20 || k.share.Held() != 0 {
		t.Errorf("%d bytes are free, and the party holds %d", a.Free(), k.share.Held())
	}
}

// TestShareIsBounded: a party that frees nothing leaves half to the others, each further one half of what it found, and
// a party that holds nothing is served at once.
func TestShareIsBounded(t *testing.T) {
	const size = 64 << 20
	a := newArena(t, size)
	var hoarders []*taker
	for i := range 5 {
		k := newTaker(a, MaxBuffer, 200)
		hoarders = append(hoarders, k)
		k.fill()
		a.Serve()
		if least := size >> (i + 1); a.Free() < least {
			t.Fatalf("%d of %d bytes are left beside %d that give nothing back, want %d", a.Free(), size, i+1, least)
		}
	}
	newcomer := newTaker(a, MaxBuffer, 1)
	for range 1000 {
		newcomer.fill()
		a.Serve()
		if len(newcomer.held) != 1 {
			t.Fatal("one that holds nothing had to wait")
		}
		newcomer.giveAll(a)
		a.Serve()
	}
	for _, k := range hoarders {
		for i := range k.waiters {
			k.waiters[i].Cancel()
		}
		k.giveAll(a)
		if k.share.Held() != 0 {
			t.Errorf("%d bytes are counted as held", k.share.Held())
		}
	}
	if a.Free() != size || a.queued != 0 || a.line.First() != nil {
		t.Errorf("%d of %d bytes are free, %d parties in line", a.Free(), size, a.queued)
	}
}

// TestLargeBufferIsNotStarved: the small buffers of other parties do not keep a large one from becoming available.
func TestLargeBufferIsNotStarved(t *testing.T) {
	a := newArena(t, MaxBuffer)
	var ks []*taker
	for range 4 {
		ks = append(ks, newTaker(a, PageSize, 256))
	}
	large := newTaker(a, MaxBuffer, 1)
	for turn := 0; large.got == 0; turn++ {
		if turn == 1000 {
			t.Fatal("the large buffer never came")
		}
		for _, k := range ks {
			k.fill()
		}
		large.fill()
		for _, k := range ks {
			if len(k.held) > 0 {
				a.Release(k.held[0])
				k.held = k.held[1:]
			}
		}
		a.Serve()
	}
}

// TestServeAllocatesNothing, with turns of parties.
func TestServeAllocatesNothing(t *testing.T) {
	a := newArena(t, 1<<20)
	var ks [8]*taker
	for i := range ks {
		ks[i] = newTaker(a, 64<<10, 16)
		ks[i].held = make([]Buffer, 0, 64)
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, k := range ks {
			k.fill()
		}
		for _, k := range ks {
			k.giveAll(a)
		}
		a.Serve()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
