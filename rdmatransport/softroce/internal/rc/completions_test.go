package rc

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestCompletionsShrink is the end of row 110: the ring's length follows the number of queue pairs, even when most of
// them are closed, and the completions of the others are kept.
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

// TestCompletionsOfWhoDoesNotPoll: a consumer that posts as much as the queue allows and polls few completions at a
// time gets all of them, as do others on the same completion queue.
func TestCompletionsOfWhoDoesNotPoll(t *testing.T) {
	p := newPair(t, pairConfig{sends: 8, recvs: 8})
	var got []rdmatransport.Completion
	posted, one := uint64(0), make([]rdmatransport.Completion, 1)
	post := func() {
		for range 8 {
			if p.a.PostSend([]rdmatransport.SendWR{{ID: posted, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled}}) == nil {
				posted++
			}
		}
	}
	for range 50 {
		post()
		p.run(time.Millisecond)
		got = append(got, one[:p.a.cq.Poll(one)]...)
	}
	p.a.Fail(rdmatransport.ErrDisconnected)
	for range 50 {
		post()
	}
	got = append(got, p.a.poll()...)
	if posted != 800 || len(got) != 800 {
		t.Fatalf("%d requests were posted, and %d completed", posted, len(got))
	}
	for i, c := range got {
		if c.ID != uint64(i) || (c.Status == rdmatransport.StatusSuccess) != (i < 400) {
			t.Fatalf("completion %d is %+v", i, c)
		}
	}
}
