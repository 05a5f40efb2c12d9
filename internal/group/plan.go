package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// planning is the memory of the planner. A new planner starts without it.
type planning struct {
	next      time.Duration            // not before this time
	epochs    map[ID]uint64            // of the groups that it has moved, at that time
	avoided   map[ID]time.Duration     // groups that could not be drained or have moved for balance, until when
	most      string                   // the gateway with the most I/O
	since     time.Duration            // since when that is so
	balancing bool                     // the I/O of gateways differs enough to move groups
	quiet     time.Duration            // since when no group has had I/O; 0: one has
	stuck     map[string]time.Duration // gateways that are stuck while others are not, since when
}

// planMoves decides which groups move: away from gateways that are drained, leave, or cannot reach their storage; back
// to preferred gateways; and from gateways with much I/O to those with little.
func (e *Engine) planMoves() *state.Txn {
	if !e.planner() {
		return nil
	}
	p := planner{Engine: e, cs: e.candidates()}
	p.noteRefusals()
	p.noteStuck()
	if t := p.dropMoves(); t != nil {
		return t
	}
	own, n := e.own(), len(e.view.moves)
	p.compare(own.Key, own.Revision)
	n += p.evacuate(4*e.cfg.MaxMoves - n)
	if e.now >= e.plan.next {
		before := n
		n += p.failBack(e.cfg.MaxMoves - n)
		if n == 0 {
			n += p.balance()
		}
		if n > before {
			e.plan.next = e.now + e.cfg.Settle
		}
	}
	if e.now < e.plan.next {
		e.at(e.plan.next)
	}
	return p.txn()
}

// A planner builds a transaction with moves.
type planner struct {
	*Engine
	change
	cs []*candidate
}

// order adds a move.
func (p *planner) order(o *entry[Owner], id ID, m Move) {
	m.Version = version
	p.compare(o.Key, o.Revision)
	p.compare(moveKey(id), 0)
	p.put(moveKey(id), encode(m, nil))
	if !m.Must {
		p.plan.epochs[id] = o.value.Epoch
	}
}

// noteRefusals finds moves that their owners have given up, and does not move these groups again for a while: hosts
// have waited in vain.
func (p *planner) noteRefusals() {
	for id, epoch := range p.plan.epochs {
		if p.view.move(id) != nil {
			continue
		}
		delete(p.plan.epochs, id)
		if o := p.view.owner(id); o != nil && o.value.Epoch == epoch {
			p.plan.avoided[id] = p.now + 20*p.cfg.Settle
		}
	}
}

// dropMoves removes moves of groups without an owner, moves to the present owner, and moves to gateways that cannot own
// groups.
func (p *planner) dropMoves() *state.Txn {
	var c change
	for i := range p.view.moves {
		m := &p.view.moves[i]
		o := p.view.owners.find(ownerPrefix + m.Key[len(movePrefix):])
		if m.err != nil || c.full() {
			continue
		}
		if o == nil || o.value.Phase != Owned || o.value.Owner == m.value.To || m.value.To != "" && named(p.cs, m.value.To) == nil {
			c.remove(m.Key, m.Revision)
		}
	}
	return c.txn()
}

// movable returns the owner of a group that can be moved now.
func (v *view) movable(id ID) *entry[Owner] {
	o := v.owner(id)
	if o == nil || o.err != nil || o.value.Phase != Owned || v.living(o.value.Incarnation) == nil || v.move(id) != nil {
		return nil
	}
	return o
}

// noteStuck notes since when gateways are stuck. If all are stuck, the storage is the cause, and moves are useless.
func (p *planner) noteStuck() {
	next := map[string]time.Duration{}
	for i := range p.view.members {
		m := &p.view.members[i]
		if len(p.cs) > 0 && named(p.cs, m.value.Name) == nil && p.alive(m) && p.view.beat(&m.value).Stuck {
			if next[m.value.Name] = p.plan.stuck[m.value.Name]; next[m.value.Name] == 0 {
				next[m.value.Name] = max(p.now, 1)
			}
		}
	}
	p.plan.stuck = next
}

// stuckForLong reports whether a gateway has been stuck long enough to move its groups. For a shorter time the storage
// itself may have paused for all.
func (p *planner) stuckForLong(name string) bool {
	since := p.plan.stuck[name]
	return since > 0 && p.now >= since+p.cfg.Settle
}

// evacuate moves groups away from gateways that should have none.
func (p *planner) evacuate(most int) (n int) {
	for i := range p.groups {
		g := &p.groups[i]
		o := p.view.movable(g.ID)
		if o == nil || n >= most || p.full() {
			continue
		}
		name, reason := o.value.Owner, ReasonDrain
		leaving := p.view.living(o.value.Incarnation).value.Leaving || o.value.Incarnation == p.inc && p.leaving > 0
		if !leaving && !p.view.drained(name) && !p.stuckForLong(name) {
			continue
		}
		if !leaving && !p.view.drained(name) {
			reason = ReasonStuck
		}
		to := best(p.cs, g, o.value.Owner)
		switch {
		case to != nil:
			to.sum += p.weight[g.ID]
			p.order(o, g.ID, Move{To: to.value().Name, Must: true, Reason: reason})
		case leaving:
			p.order(o, g.ID, Move{Must: true, Reason: reason})
		default:
			continue // it serves as well as it can
		}
		n++
	}
	return n
}

// failBack moves groups back to preferred gateways.
func (p *planner) failBack(most int) (n int) {
	for i := range p.groups {
		g := &p.groups[i]
		o := p.view.movable(g.ID)
		if o == nil || n >= most || p.full() || o.value.Owner == g.Preferred || p.now < p.plan.avoided[g.ID] {
			continue
		}
		if to := named(p.cs, g.Preferred); to != nil && to.takes(g) {
			p.order(o, g.ID, Move{To: g.Preferred, Reason: ReasonPreferred})
			n++
		}
	}
	return n
}

// rest is how long a group that has moved for balance stays, in units of Settle: until its reported I/O is that of its
// new owner.
const rest = 3

// steadiness is how long a gateway must have the most I/O, in units of Settle.
const steadiness = 2

// balance moves groups from the gateway with the most I/O to that with the least. It begins when these differ by more
// than a fifth of the mean, and ends when they differ by less than a tenth. If there is no I/O, more groups move at a
// time.
func (p *planner) balance() (n int) {
	most, moved, idle := p.cfg.MaxMoves, map[ID]bool{}, p.idle()
	if idle {
		most *= 4
	}
	for ; n < most && len(p.cs) > 1 && !p.full(); n++ {
		from, to, mean := p.extremes()
		enough := mean / 10
		if !p.plan.balancing {
			enough = mean / 5
		}
		if p.plan.balancing = p.lasts(from, from.sum-to.sum > enough, idle); !p.plan.balancing {
			return n
		}
		g, weight := p.bestMove(from, to, mean/10, moved)
		if g == nil {
			return n
		}
		moved[g.ID] = true
		p.plan.avoided[g.ID] = p.now + rest*p.cfg.Settle
		p.order(p.view.owner(g.ID), g.ID, Move{To: to.value().Name, Reason: ReasonBalance})
		from.sum -= weight
		to.sum += weight
	}
	return n
}

// idle reports whether no group has had I/O for a while. After a restart of all gateways, hosts have yet to reconnect
// and gateways to report.
func (p *planner) idle() bool {
	b := &p.plan
	if p.load > 0 {
		b.quiet = 0
		return false
	}
	if b.quiet == 0 {
		b.quiet = max(p.now, 1)
	}
	end := b.quiet + steadiness*p.cfg.Settle
	if p.now < end {
		p.at(end)
	}
	return p.now >= end
}

// lasts reports whether a gateway has had too much I/O for a while, since I/O varies. Groups without I/O are spread at
// once.
func (p *planner) lasts(from *candidate, much, idle bool) bool {
	b := &p.plan
	if name := from.value().Name; name != b.most || !much {
		b.most, b.since = name, p.now
	}
	steady := b.since + steadiness*p.cfg.Settle
	if !much || b.balancing || idle || p.now >= steady {
		return much
	}
	p.at(steady)
	return false
}

// extremes returns the gateways with the most and the least I/O, and the mean of all.
func (p *planner) extremes() (from, to *candidate, mean uint64) {
	from, to = p.cs[0], p.cs[0]
	for _, k := range p.cs {
		mean += k.sum
		if k.sum > from.sum {
			from = k
		}
		if k.sum < to.sum {
			to = k
		}
	}
	return from, to, mean / uint64(len(p.cs))
}

// bestMove returns the group whose move minimizes the greater of the two gateways' sums. A move that makes the other
// gateway the one with more I/O must gain at least margin.
func (p *planner) bestMove(from, to *candidate, margin uint64, moved map[ID]bool) (found *Group, weight uint64) {
	least, apart := from.sum, from.sum-to.sum
	for i := range p.groups {
		g := &p.groups[i]
		o := p.view.movable(g.ID)
		if o == nil || moved[g.ID] || o.value.Incarnation != from.value().Incarnation || g.Preferred == o.value.Owner ||
			!to.takes(g) || p.now < p.plan.avoided[g.ID] {
			continue
		}
		w := p.weight[g.ID]
		after := max(from.sum-min(from.sum, w), to.sum+w)
		if after < least && (w <= apart/2 || after+margin < from.sum) {
			found, weight, least = g, w, after
		}
	}
	return found, weight
}
