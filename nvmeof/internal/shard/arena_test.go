package shard

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func newArena(t *testing.T, size int) *Arena {
	t.Helper()
	a, err := NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a
}

// TestArenaRandom allocates and frees at random: buffers never overlap, are aligned to their size, and everything is
// joined again at the end.
func TestArenaRandom(t *testing.T) {
	const size = 8 << 20
	a := newArena(t, size)
	rng := rand.New(rand.NewPCG(1, 2))
	owner := make([]int, size/PageSize)
	var held []Buffer
	pages := func(b Buffer) []int {
		first := int(uintptr(unsafe.Pointer(&b.b[0]))-uintptr(unsafe.Pointer(&a.mem[0]))) / PageSize
		return owner[first : first+len(b.b)/PageSize]
	}
	for i := 1; i < 20000; i++ {
		if rng.IntN(5) < 3 {
			want := 1 + rng.IntN(1<<(8+rng.IntN(13)))
			b, ok := a.Alloc(want)
			if !ok {
				continue
			}
			n := len(b.Bytes())
			if n < want || n > PageSize && n >= 2*want || uintptr(unsafe.Pointer(&b.b[0]))%uintptr(n) != 0 {
				t.Fatalf("asked for %d bytes, got %d at %p", want, n, &b.b[0])
			}
			for j, p := range pages(b) {
				if p != 0 {
					t.Fatalf("page %d of a new buffer is handed out already", j)
				}
				pages(b)[j] = i
			}
			held = append(held, b)
		} else if len(held) > 0 {
			j := rng.IntN(len(held))
			clear(pages(held[j]))
			a.Release(held[j])
			held[j] = held[len(held)-1]
			held = held[:len(held)-1]
		}
		sum := a.Free()
		for _, b := range held {
			sum += len(b.b)
		}
		if sum != size {
			t.Fatalf("%d bytes free or held, want %d", sum, size)
		}
	}
	for _, b := range held {
		a.Release(b)
	}
	for i := range size / MaxBuffer {
		if _, ok := a.Alloc(MaxBuffer); !ok {
			t.Fatalf("only %d whole mebibytes after everything was released", i)
		}
	}
}

func TestArenaMisuse(t *testing.T) {
	a := newArena(t, 1)
	wantPanic := func(what string, fn func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", what)
			}
		}()
		fn()
	}
	b, _ := a.Alloc(100)
	a.Release(b)
	wantPanic("a double release", func() { a.Release(b) })
	wantPanic("a buffer beyond the limit", func() { a.Alloc(MaxBuffer + 1) })
	wantPanic("a release of nothing", func() { a.Release(Buffer{}) })
}

// TestArenaWaiters: buffers go to waiters in order of arrival; a small one does not overtake a large one, nor a new one
// any waiter.
func TestArenaWaiters(t *testing.T) {
	a := newArena(t, MaxBuffer)
	var held []Buffer
	for range 256 {
		b, ok := a.Alloc(PageSize)
		if !ok {
			t.Fatal("arena is too small")
		}
		held = append(held, b)
	}
	var got []int
	waiters := make([]BufferWaiter, 4)
	sizes := []int{PageSize, 4 * PageSize, PageSize, PageSize}
	for i := range waiters {
		waiters[i].Ready = func(b Buffer) { got = append(got, i); held = append(held, b) }
		a.Wait(&waiters[i], sizes[i])
	}
	a.Cancel(&waiters[2])
	a.Cancel(&waiters[2])
	free := func(b Buffer) {
		a.Release(b)
		a.Serve()
	}
	free(held[0])
	free(held[128]) // not enough for the second
	if len(got) != 1 {
		t.Fatalf("waiters %v were served, want only the first", got)
	}
	if _, ok := a.Alloc(PageSize); ok {
		t.Fatal("a newcomer overtook those who wait")
	}
	for i := 4; i < 8; i++ {
		free(held[i])
	}
	if len(got) != 3 || got[1] != 1 || got[2] != 3 {
		t.Fatalf("waiters were served in the order %v, want 0, 1, 3", got)
	}
	if _, ok := a.Alloc(PageSize); ok {
		t.Error("there is more memory than there was")
	}
}

func TestArenaAllocates(t *testing.T) {
	a := newArena(t, 4<<20)
	var bs [32]Buffer
	if n := testing.AllocsPerRun(100, func() {
		for i := range bs {
			bs[i], _ = a.Alloc(1 << (12 + i%6))
		}
		for i := range bs {
			a.Release(bs[i])
		}
	}); n != 0 {
		t.Errorf("%.1f Go allocations, want none", n)
	}
}

func TestSlab(t *testing.T) {
	if _, err := NewSlab(0); err == nil {
		t.Error("a slab of nothing was mapped")
	}
	s, err := NewSlab(PageSize + 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Bytes()) != 2*PageSize || uintptr(unsafe.Pointer(&s.Bytes()[0]))%PageSize != 0 {
		t.Errorf("slab of %d bytes at %p", len(s.Bytes()), &s.Bytes()[0])
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
