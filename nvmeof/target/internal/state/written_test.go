package state

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestWritten: what was added is there, whatever came before it, and of a few nothing else is.
func TestWritten(t *testing.T) {
	for n := capsule.NSID(1); n < 20; n++ {
		var w, joined Written
		for range 3 {
			for id := range n {
				w.Add(id + 1)
			}
			w.Add(1)
			w.Add(1)
		}
		joined.Add(1)
		joined.Join(&w)
		for id := capsule.NSID(1); id < 30; id++ {
			if want := id <= n || n > 8; w.Has(id) != want || joined.Has(id) != want {
				t.Errorf("of %d: %d is there: %v, %v", n, id, w.Has(id), joined.Has(id))
			}
		}
	}
	var none Written
	none.Join(&Written{})
	if none.Has(1) {
		t.Error("none was added")
	}
}
