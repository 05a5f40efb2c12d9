package storage

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// laneRig is a lane to a store that has few operations at a time and completes all of them in each turn.
type laneRig struct {
	lane  *Lane
	store *fewQueue
}

type fewQueue struct {
	backend.Queue
	few  int // how many operations the store accepts; 0: all
	tags []uint64
}

func (q *fewQueue) Submit(rs []backend.Request) int {
	n := len(rs)
	if q.few > 0 {
		n = min(n, q.few-len(q.tags))
	}
	for i := range rs[:n] {
		q.tags = append(q.tags, rs[i].Tag)
	}
	return n
}

func (q *fewQueue) Poll(rs []backend.Result) int {
	n := min(len(rs), len(q.tags))
	for i, tag := range q.tags[:n] {
		rs[i] = backend.Result{Tag: tag}
	}
	q.tags = q.tags[:copy(q.tags, q.tags[n:])]
	return n
}

// A clock is the part of a completion queue that the lane's shard needs.
type clock struct{ rdmatransport.CompletionQueue }

func (clock) Now() int64         { return 0 }
func (clock) ReceiveBudget() int { return 0 }

func newLaneRig(depth, few int) *laneRig {
	q := &fewQueue{few: few}
	s, err := shard.New(shard.Config{CQ: clock{}, Arena: shard.MaxBuffer})
	if err != nil {
		panic(err)
	}
	return &laneRig{&Lane{shard: s, lanes: &lanes{}, queue: q, depth: depth, users: 1}, q}
}

// A client puts its operation into the lane again when it has completed.
type client struct {
	r    *laneRig
	op   Operation
	n    *int
	stop bool
}

func (c *client) Admitted()            {}
func (c *client) Wanted(time.Duration) {}
func (c *client) Leasable()            {}
func (c *client) Completed(error) {
	*c.n++
	if !c.stop {
		c.r.lane.Put(&c.op)
	}
}

// client adds a party with a number of outstanding reads, and returns its clients.
func (r *laneRig) client(p Party, outstanding int, length int64, n *int) []*client {
	cs := make([]*client, outstanding)
	for i := range cs {
		c := &client{r: r, n: n}
		c.op.Owner, c.op.Party, c.op.Op, c.op.Length = c, p, backend.OpRead, length
		cs[i] = c
		r.lane.Put(&c.op)
	}
	return cs
}

// TestTurnsOfAStore: parties get equal shares of a store that has room for few operations, however many they have
// outstanding. A party with a single operation at a time waits no longer than a turn of each party before it, and
// nothing is allocated.
func TestTurnsOfAStore(t *testing.T) {
	for _, c := range []struct{ parties, few int }{{2, 0}, {17, 0}, {17, 3}, {17, 8}, {256, 0}, {256, 3}} { // the limit is the lane's, the store's, or both
		r := newLaneRig(8, c.few)
		counts := make([]int, c.parties)
		for p := range c.parties {
			r.client(Party(p), []int{128, 1, 64, 32}[p%4], 4096, &counts[p])
		}
		for range 50 * c.parties {
			r.lane.Poll()
		}
		clear(counts)
		if n := testing.AllocsPerRun(50*c.parties, func() { r.lane.Poll() }); n != 0 {
			t.Errorf("%v allocations in a turn", n)
		}
		sum, squares := 0.0, 0.0
		for _, n := range counts {
			sum, squares = sum+float64(n), squares+float64(n*n)
		}
		if j := sum * sum / squares / float64(c.parties); j < 0.98 && c.parties > 2 {
			t.Errorf("%d parties, store of %d: fairness %.3f: %v", c.parties, c.few, j, counts)
		}
	}
	r := newLaneRig(8, 0)
	var many, one int
	r.client(0, 128, 4096, &many)
	r.client(1, 1, 4096, &one)
	for range 1000 {
		r.lane.Poll()
	}
	if one < 450 { // of 500: one turn until it is submitted, one in the store
		t.Errorf("%d operations of one that has one outstanding, beside %d", one, many)
	}
}

// TestTurnsCountBytes: a party with large operations does not get a larger share.
func TestTurnsCountBytes(t *testing.T) {
	r := newLaneRig(8, 0)
	var small, large int
	r.client(0, 64, 4096, &small)
	r.client(1, 64, 1<<20, &large)
	for range 4000 {
		r.lane.Poll()
	}
	if ratio := float64(small) * 4096 / (float64(large) * (1 << 20)); ratio < 0.45 || ratio > 2 {
		t.Errorf("%d reads of 4 KiB and %d of 1 MiB", small, large)
	}
}

// TestWithdrawFromTurns: an operation that waits can be withdrawn, wherever it waits; one that was submitted
// cannot.
func TestWithdrawFromTurns(t *testing.T) {
	r := newLaneRig(2, 0)
	var n int
	cs := append(r.client(0, 5, 4096, &n), r.client(1, 3, 4096, &n)...)
	for _, c := range cs {
		c.stop = true
	}
	if !r.lane.Withdraw(&cs[4].op) || r.lane.Withdraw(&cs[4].op) {
		t.Error("withdrawing before the first turn")
	}
	r.store.few = 1
	r.lane.push()
	if r.lane.Withdraw(&cs[0].op) {
		t.Error("an operation that the store has was withdrawn")
	}
	for _, c := range []*client{cs[1], cs[5], cs[6], cs[7]} {
		if !r.lane.Withdraw(&c.op) {
			t.Error("an operation that waits for its turn was not withdrawn")
		}
	}
	for range 10 {
		r.lane.Poll()
	}
	if n != 3 || r.lane.due() {
		t.Errorf("%d operations completed, want the 3 that were left", n)
	}
}
