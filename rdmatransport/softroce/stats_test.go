package softroce

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestDropsAreCountedOnce: a loss is counted under one reason only.
func TestDropsAreCountedOnce(t *testing.T) {
	s := Stats{SendDropped: 5, UDP: UDPStats{SendLost: 3, SendFull: 2}}
	sum := uint64(0)
	for _, n := range s.Drops() {
		sum += n
	}
	if sum != 5 {
		t.Errorf("%d messages were dropped, and 5 sends failed: %v", sum, s.Drops())
	}
}

// TestStatsOfUnusedShards: Stats does not wait for shards that nobody polls: those whose completion queue was never
// opened, was closed before, or is closed while Stats waits for it.
func TestStatsOfUnusedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Shards: 3, Network: NewNetwork(1)})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		read := func() chan int {
			shards := make(chan int, 1)
			go func() { shards <- len(d.Stats()) }() // ends when each open completion queue was polled or closed
			synctest.Wait()
			return shards
		}
		wants := func(when string, shards chan int, answers bool) {
			t.Helper()
			if synctest.Wait(); len(shards) > 0 != answers {
				t.Errorf("%s: Stats has returned: %v", when, !answers)
			}
		}
		wants("no completion queue", read(), true)
		first, second := opened(t, d), opened(t, d)
		shards := read()
		wants("neither was polled", shards, false)
		first.Poll(make([]rdmatransport.Completion, 1))
		wants("one was polled", shards, false)
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		wants("one was polled and the other closed", shards, true)
		shards = read()
		first.Poll(make([]rdmatransport.Completion, 1))
		wants("one is closed", shards, true)
		second = opened(t, d)
		shards = read()
		first.Poll(make([]rdmatransport.Completion, 1))
		wants("one was opened again", shards, false)
		second.Poll(make([]rdmatransport.Completion, 1))
		wants("both were polled", shards, true)
	})
}

func opened(t *testing.T, d *Device) rdmatransport.CompletionQueue {
	t.Helper()
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return cq
}
