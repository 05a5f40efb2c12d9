package state

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestWritten: every namespace that was added is included, and with only a few, no other.
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
