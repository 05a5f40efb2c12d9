package nbd

import (
	"math/rand/v2"
	"testing"
)

// TestPages compares pages with a model.
func TestPages(t *testing.T) {
	const count = 200
	p := newPages(count*pageSize + 100)
	used := make([]bool, count)
	type part struct{ first, n int }
	var parts []part
	dice := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		if dice.IntN(2) == 0 && len(parts) > 0 {
			i := dice.IntN(len(parts))
			at := parts[i]
			p.free(at.first, at.n)
			for j := range at.n {
				used[at.first+j] = false
			}
			parts[i] = parts[len(parts)-1]
			parts = parts[:len(parts)-1]
			continue
		}
		n := 1 + dice.IntN(1+dice.IntN(90))
		want := fit(used, n)
		if got := p.alloc(n); got != want {
			t.Fatalf("%d pages at %d, want %d", n, got, want)
		}
		if want >= 0 {
			parts = append(parts, part{want, n})
			for j := range n {
				used[want+j] = true
			}
		}
	}
}

// fit returns the first of n contiguous free pages.
func fit(used []bool, n int) int {
	run := 0
	for i, u := range used {
		if u {
			run = 0
		} else if run++; run == n {
			return i - n + 1
		}
	}
	return -1
}
