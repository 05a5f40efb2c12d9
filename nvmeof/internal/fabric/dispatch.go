package fabric

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Dispatcher decides when the commands of a shard's queues begin. While only one party sends I/O commands, they begin
// as they arrive. While several parties do, they take turns, by bytes (deficit round robin). The shard then first takes
// everything that has arrived, and only a limited amount begins in each of its turns. The remaining commands wait in
// their queues, where another party's command can overtake them. In the order of arrival, a host with one command at a
// time would wait for everything that the others have outstanding.
type Dispatcher struct {
	shard   *shard.Shard
	last    *Party           // whose command arrived last
	crowded int64            // until then commands take turns
	line    list.List[Party] // parties with waiting commands, in the order of their turns
	round   int64            // the round in which each of them has a turn
	held    bool             // no command begins
}

// A Party is one of the users that share a shard, for example a host with all its queues there. It sets no limit by
// itself: a single party gets everything. A Party is embedded in the user's own structure.
type Party struct {
	reads readShare

	queues list.List[TargetQueue] // with waiting commands, in the order of their turns
	credit int                    // bytes that it may still begin in its turn; negative if it began more
	round  int64                  // the round in which it had its last turn
	link   list.Link[Party]
}

// Open makes p a party of a shard.
func (p *Party) Open(s *shard.Shard) {
	*p = Party{}
	p.reads.open(s)
}

const (
	// crowdedFor is how long commands take turns after a command of another party has arrived.
	crowdedFor = 100 * time.Millisecond
	// commandCost is the cost of a command in bytes, in addition to its data.
	commandCost = 4 << 10
	// atOnce is what a party may begin on arrival in each round: a command of 4 KiB. The excess of a larger one is
	// charged to the following rounds.
	atOnce = 2 * commandCost
	// partyTurn is what a party begins in its turn: several commands, whose responses are sent together.
	partyTurn = 8 * atOnce
	// queueTurn is how many commands of a queue begin in a row, while the queue's memory is in the processor's cache.
	queueTurn = 8
	// maxRounds is more rounds than any command takes.
	maxRounds = 1 << 10
	// shardTurn is how much begins in one turn of the shard while commands take turns. Responses are sent at the end of
	// the turn.
	shardTurn = 3 * partyTurn
)

// NewDispatcher returns the dispatcher for all queues of a shard.
func NewDispatcher(s *shard.Shard) *Dispatcher {
	d := &Dispatcher{shard: s}
	s.AddPoller(d)
	return d
}

// Hold keeps commands from beginning: they wait in their queues until Release.
func (d *Dispatcher) Hold() { d.held = true }

// Release undoes Hold.
func (d *Dispatcher) Release() {
	d.held = false
	d.shard.Wake()
}

// defers reports whether a command that has just arrived on the queue must wait for a turn.
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
	// Other parties have had their turns since p's last one.
	p.credit = min(0, p.credit+int(min(d.round-p.round, maxRounds))*partyTurn)
	p.round = d.round
	return p.credit <= -atOnce
}

// wait makes the queue take turns until all commands that have arrived have begun.
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

// forget removes the queue.
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

// Poll implements [shard.Poller]. It begins the commands of this turn.
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

// begin begins the oldest command of the queue whose turn it is and returns its cost.
func (d *Dispatcher) begin(q *TargetQueue) int {
	if q.state != StateLive || q.free.First() == nil { // it has failed, or continues when a context is free
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
