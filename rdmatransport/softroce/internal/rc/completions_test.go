package rc

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestCompletionsShrink is the end of row 110: the ring is as long as its queue pairs need, also when most of them
// are gone, and keeps what the others have completed.
func TestCompletionsShrink(t *testing.T) {
	var c Completions
	const pairs, each = 1000, 50
	c.Reserve(each) // of queue pair 0
	least := len(c.ring)
	for i := 1; i <= pairs; i++ {
		c.Reserve(each)
		c.push(rdmatransport.Completion{ID: uint64(i), QPN: rdmatransport.QPN(i)})
		if i%20 == 0 {
			c.push(rdmatransport.Completion{ID: uint64(i)})
		}
	}
	for i := 1; i <= pairs; i++ {
		c.Release(each, rdmatransport.QPN(i), false)
	}
	if len(c.ring) > 4*least {
		t.Errorf("%d entries after %d queue pairs, %d before", len(c.ring), pairs, least)
	}
	var out [pairs]rdmatransport.Completion
	if n := c.Poll(out[:]); n != pairs/20 {
		t.Fatalf("%d completions are left, want %d", n, pairs/20)
	}
	for i := range pairs / 20 {
		if out[i].ID != uint64(20*(i+1)) {
			t.Errorf("completion %d is of request %d", i, out[i].ID)
		}
	}
}
