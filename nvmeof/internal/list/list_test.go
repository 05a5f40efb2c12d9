package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type element struct {
	n    int
	link Link[element]
}

// contents returns the elements of a list, read forward and checked backward.
func contents(t *testing.T, l *List[element]) []*element {
	t.Helper()
	var all []*element
	for e := l.First(); e != nil; e = e.link.Next() {
		if !e.link.Linked() {
			t.Fatalf("element %d is in the list and not linked", e.n)
		}
		if before := e.link.Prev(); len(all) == 0 && before != nil || len(all) > 0 && before != all[len(all)-1] {
			t.Fatalf("element %d has the wrong one before it", e.n)
		}
		all = append(all, e)
	}
	if len(all) == 0 && l.last != nil || len(all) > 0 && l.last.element != all[len(all)-1] {
		t.Fatal("the last element is wrong")
	}
	return all
}

// TestAgainstSlice compares a list with a slice under random operations.
func TestAgainstSlice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	elements := make([]element, 8)
	for i := range elements {
		elements[i].n = i
	}
	var l List[element]
	var want []*element
	for range 10000 {
		switch e := &elements[random.IntN(len(elements))]; {
		case random.IntN(4) == 0:
			got := l.Pop()
			if len(want) == 0 {
				if got != nil {
					t.Fatal("an element of an empty list")
				}
				continue
			}
			if got != want[0] || got.link.Linked() {
				t.Fatalf("popped element %d, want %d, unlinked", got.n, want[0].n)
			}
			want = want[1:]
		case e.link.Linked() || random.IntN(4) == 0: // the latter: in no list
			l.Remove(&e.link)
			want = slices.DeleteFunc(want, func(w *element) bool { return w == e })
		default:
			l.Push(e, &e.link)
			want = append(want, e)
		}
		if !slices.Equal(contents(t, &l), want) {
			t.Fatal("not in order")
		}
	}
}

func TestAllocations(t *testing.T) {
	var l List[element]
	var e element
	if n := testing.AllocsPerRun(100, func() {
		l.Push(&e, &e.link)
		l.Pop()
		l.Push(&e, &e.link)
		l.Remove(&e.link)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
