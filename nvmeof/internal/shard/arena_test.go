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

// TestArenaRandom allocates and frees at random: buffers never overlap, are
// aligned to their size, and everything joins again at the end.
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

// TestArenaWaiters: buffers go to waiters in the order of their coming; a small
// one does not overtake a large one, nor a newcomer anybody.
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

// budgetRig is a budget of 100 bytes with three consumers.
type budgetRig struct {
	t       *testing.T
	s       *Shard
	b       *Budget
	rs      [3]recorder
	claims  [3]Claim
	retried [3]int
}

func newBudgetRig(t *testing.T) *budgetRig {
	r := &budgetRig{t: t, s: &Shard{cq: newFakeCQ()}, b: &Budget{limit: 100}}
	for i := range r.rs {
		r.rs[i].retry = func() { r.retried[i]++ }
		r.s.Attach(&r.rs[i].slot, &r.rs[i])
	}
	return r
}

// grant has consumer i take bytes.
func (r *budgetRig) grant(i, least, most, want int) {
	r.t.Helper()
	if got := r.b.Take(&r.claims[i], &r.rs[i].slot, least, most); got != want {
		r.t.Fatalf("granted %d of %d to %d beside %d, want %d", got, least, most, r.b.Used(), want)
	}
}

func TestBudget(t *testing.T) {
	r := newBudgetRig(t)
	s, b, claims, retried := r.s, r.b, &r.claims, &r.retried
	take := func(i, n int, ok bool) {
		t.Helper()
		r.grant(i, n, n, n*map[bool]int{true: 1}[ok])
	}
	take(0, 60, true)
	take(1, 50, false)
	take(2, 10, false) // fits, but another waits
	b.Give(60)
	s.serveRetries()
	if retried[1] != 1 || retried[2] != 1 {
		t.Fatalf("retries %v, want all for whom there is room", retried)
	}
	take(0, 40, false) // has room, but comes last
	take(2, 10, true)
	take(1, 50, true)
	s.serveRetries()
	if retried[0] != 1 {
		t.Fatalf("retries %v: the next in the queue was not told", retried)
	}
	take(0, 40, true)
	b.Give(40)
	take(0, 500, false)
	take(1, 5, false)
	b.Cancel(&claims[1])
	b.Give(50)
	b.Give(10)
	take(0, 500, true) // beyond the limit: alone
	take(1, 1, false)
	b.Cancel(&claims[1])
	b.Give(500)
	take(2, 100, true)
	if b.Used() != 100 {
		t.Errorf("%d bytes used, want 100", b.Used())
	}
}

// TestBudgetGrants: how much of what is asked for is granted.
func TestBudgetGrants(t *testing.T) {
	r := newBudgetRig(t)
	b, grant := r.b, r.grant
	grant(0, 5, 20, 20)
	grant(0, 5, 70, 25) // a quarter
	grant(0, 50, 60, 50)
	grant(1, 2, 20, 5) // what is left
	grant(1, 2, 4, 0)
	grant(2, 2, 3, 0)
	grant(1, 2, 10, 0) // has come to want more
	b.Give(9)
	if r.claims[1].called {
		t.Error("told although there is not room for all")
	}
	b.Give(11)
	grant(1, 2, 20, 10) // what was promised
	grant(2, 2, 20, 3)
	grant(1, 40, 40, 0)
	grant(2, 5, 5, 0)
	b.Give(50)
	grant(1, 50, 50, 0) // more than promised: to the end of the queue
	grant(2, 5, 5, 5)
	b.Give(10)
	grant(1, 50, 50, 50)
	none := &Budget{}
	if none.Take(&r.claims[0], &r.rs[0].slot, 1, 1<<40) != 1<<40 {
		t.Error("a budget without limit refused")
	}
}
