package fabric

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A fetch is how far the RDMA READs of a command have come.
type fetch struct {
	local   cursor
	remote  int // descriptor
	offset  int // in the descriptor
	flying  int // reads posted, not complete
	allSent bool
}

// A readWindow bounds a queue's RDMA READs: as many at a time as the connection
// allows, so that none waits in the provider in front of a response, and as
// many bytes as the shard's receive buffer holds, all queues together.
//
// A peer whose data does not come while others wait for the budget, and one that has not
// sent a Connect command, takes from the shard's SlowBudget.
type readWindow struct {
	depth    int
	chunk    int // bytes of one read at most
	shard    *shard.Shard
	budget   *shard.Budget // from which the next read is taken
	claim    shard.Claim
	admitted bool
	slowTill int64        // on SlowBudget until then
	reads    []flyingRead // in flight, a ring: they complete in order
	head     int
	flying   int
}

type flyingRead struct {
	bytes  int
	at     int64
	budget *shard.Budget // nil: it was given back already
}

const (
	maxReadChunk = 128 << 10

	// slowFor is how long a peer takes from SlowBudget after others had to wait for it.
	slowFor = 10 * time.Second
)

func (w *readWindow) init(q *TargetQueue, depth int) {
	w.depth, w.shard, w.budget = depth, q.cfg.Shard, q.cfg.Shard.SlowBudget()
	w.reads = make([]flyingRead, depth)
	w.chunk = maxReadChunk
	if limit := w.shard.Budget().Limit(); limit > 0 {
		// A quarter of the budget, so that others move on meanwhile.
		w.chunk = max(shard.PageSize, min(w.chunk, limit/4&^(shard.PageSize-1)))
	}
	w.claim.Peer = q.qp.RemoteAddr().Addr()
	w.claim.Reclaim = q.reclaimReads
}

// choose selects the budget for the next read.
func (w *readWindow) choose() {
	b := w.shard.Budget()
	if !w.admitted || w.slowTill > w.shard.Now() {
		b = w.shard.SlowBudget()
	}
	if b != w.budget {
		w.budget.Cancel(&w.claim)
		w.budget = b
	}
}

func (w *readWindow) push(n int) {
	now := w.shard.Now()
	if w.flying == 0 {
		w.shard.Lend(&w.claim)
	}
	w.reads[(w.head+w.flying)%w.depth] = flyingRead{n, now, w.budget}
	w.flying++
}

func (w *readWindow) pop() int {
	r := &w.reads[w.head]
	w.head = (w.head + 1) % w.depth
	if w.flying--; w.flying == 0 {
		w.shard.Returned(&w.claim)
	}
	if r.budget != nil {
		r.budget.Give(r.bytes)
	}
	return r.bytes
}

// drop gives back what the reads in flight had taken.
func (w *readWindow) drop() {
	for w.flying > 0 {
		w.pop()
	}
	if w.budget != nil {
		w.budget.Cancel(&w.claim)
	}
}

// reclaimReads gives back what reads that began before that time have taken of a budget. The data may
// still come, but slowly, or else it had come.
func (q *TargetQueue) reclaimReads(from *shard.Budget, before int64) {
	w := &q.reads
	for i := range w.flying {
		r := &w.reads[(w.head+i)%w.depth]
		if r.at > before {
			return
		}
		if r.budget != from {
			continue
		}
		w.slowTill = w.shard.Now() + int64(slowFor)
		r.budget = nil
		from.Give(r.bytes)
		if w.claim.Waiting() {
			w.choose()
			q.slot.Flush()
		}
	}
}

// collectReads turns as much of the queued fetches into reads as may be in
// flight. The last entry of the send queue is left to a response.
func (q *TargetQueue) collectReads() {
	w := &q.reads
	for c := q.fetches.First(); c != nil; c = q.fetches.First() {
		for !c.fetch.allSent {
			if w.flying == w.depth || q.send.room < 2 || !q.collectRead(c) {
				return
			}
		}
		q.fetches.Remove(&c.link)
	}
}

// collectRead adds the next read of a fetch, unless the budget is spent.
func (q *TargetQueue) collectRead(c *Command) bool {
	f, w := &c.fetch, &q.reads
	r := &c.data.remotes[f.remote]
	want := min(r.length-f.offset, w.chunk)
	w.choose()
	if w.budget.Take(&w.claim, &q.slot, want, want) == 0 {
		return false
	}
	sgl, n := q.send.gather(&f.local, c.pieces, q.cfg.readSGE(), want)
	if n < want { // more pieces than one work request takes
		w.budget.Give(want - n)
	}
	q.send.Reads = append(q.send.Reads, rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagRead, c.index)), Op: rdmatransport.OpRead,
		Flags: rdmatransport.FlagSignaled, SGL: sgl,
		RemoteAddr: r.addr + uint64(f.offset), RKey: r.key,
	})
	q.send.room--
	w.push(n)
	f.flying++
	f.offset += n
	if f.offset == r.length {
		f.remote, f.offset = f.remote+1, 0
	}
	f.allSent = f.remote == len(c.data.remotes)
	return true
}

// readDone takes the completion of one read.
func (q *TargetQueue) readDone(c *Command, bytes int) {
	q.progress.ended++
	q.send.room++
	want := q.reads.pop()
	if bytes != want {
		q.fail(fmt.Errorf("%w: RDMA READ of %d bytes returned %d", ErrProtocol, want, bytes))
		return
	}
	if q.fetches.First() != nil {
		q.slot.Flush()
	}
	if c.fetch.flying--; c.fetch.flying > 0 || !c.fetch.allSent {
		return
	}
	c.state = commandHeld
	q.handler.Fetched(c)
}
