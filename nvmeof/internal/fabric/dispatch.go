package fabric

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Dispatcher decides when the commands of a shard's queues begin. While one party sends
// I/O commands they begin as they arrive. While several do, each gets turns, by bytes (deficit
// round robin), and only so much begins in a turn of the shard, which takes all that has
// arrived first: what is left waits in its queues, where a command of somebody else overtakes it. In the
// order of arrival a host with one command at a time would wait for all that others have
// outstanding.
type Dispatcher struct {
	shard   *shard.Shard
	last    *Party           // whose command came last
	crowded int64            // until then commands take turns
	line    list.List[Party] // those whose commands wait, in the order of their turns
	round   int64            // in which each of them has a turn
	held    bool             // no command begins
}

// A Party is one of those who share a shard: a host with all its queues there, say. It
// bounds nothing by itself: a party alone gets everything. It is part of whatever stands for
// the party.
type Party struct {
	reads readShare

	queues list.List[TargetQueue] // with commands that wait, in the order of their turns
	credit int                    // bytes that it may still begin in its turn; what it began beyond is negative
	round  int64                  // in which it had its last turn
	link   list.Link[Party]
}

// Open makes it a party of a shard.
func (p *Party) Open(s *shard.Shard) {
	*p = Party{}
	p.reads.open(s)
}

const (
	// crowdedFor is how long after a command of another party commands take turns.
	crowdedFor = 100 * time.Millisecond
	// commandCost is what a command costs beside its data, in bytes.
	commandCost = 4 << 10
	// atOnce is what a party begins as it arrives, in each round: a command of 4 KiB.
	// What a larger one takes is counted to the rounds that follow.
	atOnce = 2 * commandCost
	// partyTurn is what a party begins in its turn: several commands, whose responses are sent
	// together.
	partyTurn = 8 * atOnce
	// queueTurn is how many commands of a queue begin one after the other, while what
	// belongs to the queue is in the processor's cache.
	queueTurn = 8
	// maxRounds is more than what any command takes.
	maxRounds = 1 << 10
	// shardTurn is what begins in one turn of the shard while commands take turns. The
	// responses are sent at its end.
	shardTurn = 3 * partyTurn
)

// NewDispatcher returns the dispatcher of a shard, for all its queues.
func NewDispatcher(s *shard.Shard) *Dispatcher {
	d := &Dispatcher{shard: s}
	s.AddPoller(d)
	return d
}

// Hold keeps commands from beginning: what arrives waits in its queue, until Release.
func (d *Dispatcher) Hold() { d.held = true }

// Release ends what Hold began.
func (d *Dispatcher) Release() {
	d.held = false
	d.shard.Wake()
}

// defers reports whether a command of the queue that has just arrived waits for a turn.
func (d *Dispatcher) defers(q *TargetQueue) bool {
	p := q.party
	if p == nil {
		return false
	}
	if d.held {
		return true
	}
	if p != d.last && !q.cfg.Admin {
		if d.last != nil {
			d.crowded = d.shard.Now() + int64(crowdedFor)
		}
		d.last = p
	}
	if d.line.First() == nil && d.crowded < d.shard.Now() {
		p.credit = 0
		return false
	}
	if p.link.Linked() {
		return true
	}
	// Others have had their turns meanwhile.
	p.credit = min(0, p.credit+int(min(d.round-p.round, maxRounds))*partyTurn)
	p.round = d.round
	return p.credit <= -atOnce
}

// wait has the queue take turns until what has arrived has begun.
func (d *Dispatcher) wait(q *TargetQueue) {
	if q.turns.Linked() {
		return
	}
	p := q.party
	q.run = 0
	p.queues.Push(q, &q.turns)
	if !p.link.Linked() {
		p.credit = min(0, p.credit)
		p.round = d.round - 1
		d.line.Push(p, &p.link)
	}
}

// forget takes the queue out.
func (d *Dispatcher) forget(q *TargetQueue) {
	if !q.turns.Linked() {
		return
	}
	p := q.party
	p.queues.Remove(&q.turns)
	if p.queues.First() == nil {
		d.line.Remove(&p.link)
	}
}

// Poll implements [shard.Poller]: it begins what may begin in this turn.
func (d *Dispatcher) Poll() bool {
	d.shard.Drain(d.crowded >= d.shard.Now())
	if d.held {
		return false
	}
	if d.line.First() == nil {
		d.round++
	}
	left := shardTurn
	for p := d.line.First(); p != nil && left > 0; p = d.line.First() {
		if p.credit <= 0 {
			if p.round == d.round {
				d.round++
			}
			p.round = d.round
			p.credit += partyTurn
			d.line.Remove(&p.link)
			d.line.Push(p, &p.link)
			continue
		}
		q := p.queues.First()
		n := d.begin(q)
		p.credit -= n
		left -= n
	}
	return left < shardTurn
}

// begin begins the oldest command of a queue whose turn it is, and returns what that costs.
func (d *Dispatcher) begin(q *TargetQueue) int {
	if q.state != StateLive || q.free.First() == nil { // it has failed, or goes on when a context is free
		d.forget(q)
		return 0
	}
	a, _ := q.backlog.pop()
	if q.run++; q.backlog.count == 0 {
		d.forget(q)
	} else if q.run >= queueTurn {
		q.run = 0
		q.party.queues.Remove(&q.turns)
		q.party.queues.Push(q, &q.turns)
	}
	return q.begin(a)
}

// Arm implements [shard.Poller].
func (d *Dispatcher) Arm() bool { return d.held || d.line.First() == nil }
