package fabric

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A fetch is the progress of the RDMA READs of a command.
type fetch struct {
	local   cursor
	remote  int // index of the descriptor
	offset  int // in the descriptor
	flying  int // reads posted, not completed
	allSent bool
}

// A readShare is a party's part of a shard's room for the data of RDMA READs.
type readShare struct {
	quick, slow shard.Allowance
	slowTill    int64      // queues of slowPeer that join before then take from slow
	slowPeer    netip.Addr // the last peer that did not deliver in time
}

func (r *readShare) open(s *shard.Shard) {
	r.quick.Open(s.Budget())
	r.slow.Open(s.SlowBudget())
}

// A readWindow bounds a queue's RDMA READs. At any time it posts no more than the connection allows, so that none waits
// in the provider in front of a response. All queues together read no more bytes than fit into the shard's receive
// buffer.
//
// A peer that is not admitted takes from the shard's SlowBudget, and so does a peer whose data does not arrive while
// others wait.
type readWindow struct {
	depth    int
	chunk    int // maximum bytes of one read
	shard    *shard.Shard
	party    *readShare       // may be nil
	from     *shard.Allowance // from which the next read takes
	claim    shard.Claim
	granted  int // bytes of from, for the reads that are collected next
	admitted bool
	slowTill int64        // takes from the SlowBudget until then
	reads    []flyingRead // in flight, a ring: they complete in order
	head     int
	flying   int
}

type flyingRead struct {
	bytes  int
	at     int64
	budget *shard.Budget // nil: the bytes were given back already
}

const (
	maxReadChunk = 128 << 10

	// slowFor is how long a peer takes from SlowBudget after others had to wait for it.
	slowFor = 10 * time.Second
)

func (w *readWindow) init(q *TargetQueue, depth int) {
	w.depth, w.shard = depth, q.cfg.Shard
	w.from = w.allowance()
	w.reads = make([]flyingRead, depth)
	w.chunk = maxReadChunk
	if limit := w.shard.Budget().Limit(); limit > 0 {
		// At most a quarter of the budget, so that other queues are served too.
		w.chunk = max(shard.PageSize, min(w.chunk, limit/4&^(shard.PageSize-1)))
	}
	w.claim.Peer = q.qp.RemoteAddr().Addr()
	w.claim.Reclaim = q.reclaimReads
}

// SetParty makes the queue one of a party. admitted says whether the peer was admitted as part of it; the RDMA READs of
// peers that are not admitted get little room.
func (q *TargetQueue) SetParty(p *Party, admitted bool) {
	waits := q.turns.Linked()
	if waits {
		q.cfg.Dispatcher.forget(q)
	}
	q.party = p
	if waits {
		q.cfg.Dispatcher.wait(q)
	}
	w := &q.reads
	w.party, w.admitted = &p.reads, admitted
	if p.reads.slowPeer == w.claim.Peer {
		w.slowTill = max(w.slowTill, p.reads.slowTill)
	}
	if w.shard != nil {
		w.choose()
	}
	if q.fetches.First() != nil {
		q.slot.Flush()
	}
}

// allowance returns the allowance from which the next read takes.
func (w *readWindow) allowance() *shard.Allowance {
	slow := !w.admitted || w.slowTill > w.shard.Now()
	switch {
	case w.party == nil && slow:
		return w.shard.SlowBudget().Own()
	case w.party == nil:
		return w.shard.Budget().Own()
	case slow:
		return &w.party.slow
	}
	return &w.party.quick
}

// choose selects the allowance for the next read.
func (w *readWindow) choose() {
	if a := w.allowance(); a != w.from {
		w.claim.Cancel()
		w.from = a
	}
}

func (w *readWindow) push(n int) {
	now := w.shard.Now()
	if w.flying == 0 {
		w.shard.Lend(&w.claim)
	}
	w.reads[(w.head+w.flying)%w.depth] = flyingRead{n, now, w.from.Budget()}
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

// drop gives back the bytes of the reads in flight.
func (w *readWindow) drop() {
	for w.flying > 0 {
		w.pop()
	}
	w.claim.Cancel()
}

// reclaimReads gives back the bytes of a budget that were taken by reads posted before that time, if others wait for
// the budget. Their data may still arrive, but slowly: otherwise it would have arrived by now.
func (q *TargetQueue) reclaimReads(from *shard.Budget, before int64) {
	w := &q.reads
	own := from.Own()
	if w.party != nil {
		if own = &w.party.quick; own.Budget() != from {
			own = &w.party.slow
		}
	}
	for i := range w.flying {
		r := &w.reads[(w.head+i)%w.depth]
		if r.at > before || !own.AwaitedBeside(&w.claim) {
			return
		}
		if r.budget != from {
			continue
		}
		if w.slowTill <= w.shard.Now() && w.admitted {
			q.handler.Slow()
		}
		w.slowTill = w.shard.Now() + int64(slowFor)
		if w.party != nil {
			w.party.slowTill, w.party.slowPeer = w.slowTill, w.claim.Peer
		}
		r.budget = nil
		from.Give(r.bytes)
		if w.claim.Waiting() {
			w.choose()
			q.slot.Flush()
		}
	}
}

// collectReads collects as many RDMA READs of the queued fetches as may be in flight. It leaves the last entry of the
// send queue to a response.
func (q *TargetQueue) collectReads() {
	if q.fetches.First() == nil {
		return
	}
	w := &q.reads
	w.choose()
	for q.collectRead() {
	}
	if w.granted > 0 {
		w.from.Return(w.granted)
		w.granted = 0
	}
	if (w.flying == w.depth || q.send.room < 2) && w.claim.Granted() > 0 {
		w.claim.Cancel() // let other queues have it
	}
}

// collectRead collects the next read. It returns false if there is none, or no room for one.
func (q *TargetQueue) collectRead() bool {
	c, w := q.fetches.First(), &q.reads
	if c == nil || w.flying == w.depth || q.send.room < 2 {
		return false
	}
	f := &c.fetch
	r := &c.data.remotes[f.remote]
	want := min(r.length-f.offset, w.chunk)
	if w.granted < want && !q.takeReads(want) {
		return false
	}
	sgl, n := q.send.gather(&f.local, c.pieces, q.cfg.readSGE(), want)
	w.granted -= n // less than want if it needs more pieces than one work request can have
	q.send.Reads = append(q.send.Reads, rdmatransport.SendWR{
		ID: q.slot.ID(makeTag(tagRead, c.Index)), Op: rdmatransport.OpRead,
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
	if f.allSent = f.remote == len(c.data.remotes); f.allSent {
		q.fetches.Remove(&c.link)
	}
	return true
}

// takeReads takes room for a read of want bytes, or for several if the queue had waited. If there is no room, it waits.
func (q *TargetQueue) takeReads(want int) bool {
	w := &q.reads
	if w.granted > 0 {
		w.from.Return(w.granted)
		w.granted = 0
	}
	if w.granted = w.from.Take(&w.claim, want, want); w.granted > 0 {
		return true
	}
	w.from.Wait(&w.claim, &q.slot, want, q.wantedReads())
	return false
}

// wantedReads returns the number of bytes of the reads that could be posted.
func (q *TargetQueue) wantedReads() (n int) {
	w := &q.reads
	left := min(w.depth-w.flying, int(q.send.room)-1)
	for c := q.fetches.First(); c != nil; c = c.link.Next() {
		f := &c.fetch
		for i, offset := f.remote, f.offset; i < len(c.data.remotes); i, offset = i+1, 0 {
			length := c.data.remotes[i].length - offset
			reads := min(left, (length+w.chunk-1)/w.chunk)
			n += min(length, reads*w.chunk)
			if left -= reads; left == 0 {
				return n
			}
		}
	}
	return n
}

// readDone handles the completion of one read.
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
