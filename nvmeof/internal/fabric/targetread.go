package fabric

import (
	"fmt"

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
type readWindow struct {
	depth  int
	chunk  int // bytes of one read at most
	budget *shard.Budget
	claim  shard.Claim
	sizes  []int // of the reads in flight, a ring: they complete in order
	head   int
	flying int
}

const maxReadChunk = 128 << 10

func (w *readWindow) init(depth int, budget *shard.Budget) {
	w.depth, w.budget = depth, budget
	w.sizes = make([]int, depth)
	w.chunk = maxReadChunk
	if limit := budget.Limit(); limit > 0 {
		// A quarter of the budget, so that others move on meanwhile.
		w.chunk = max(shard.PageSize, min(w.chunk, limit/4&^(shard.PageSize-1)))
	}
}

func (w *readWindow) push(n int) {
	w.sizes[(w.head+w.flying)%w.depth] = n
	w.flying++
}

func (w *readWindow) pop() int {
	n := w.sizes[w.head]
	w.head = (w.head + 1) % w.depth
	w.flying--
	w.budget.Give(n)
	return n
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
