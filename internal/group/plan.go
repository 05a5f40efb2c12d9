package group

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// planning is what the planner remembers. Another one may forget it.
type planning struct {
	next    time.Duration            // not before
	epochs  map[ID]uint64            // of the groups that it has moved, when it did
	avoided map[ID]time.Duration     // groups that could not be drained, until when
	stuck   map[string]time.Duration // gateways whose I/O does not end while that of others does, since when
}

// planMoves says which groups are to move: away from gateways that are drained, leave, or
// cannot reach their storage; back to those that are preferred; and from those with much I/O
// to those with little.
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
			n += p.balance(e.cfg.MaxMoves)
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

// A planner puts together a change of moves.
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
		if p.plan.epochs == nil {
			p.plan.epochs, p.plan.avoided = map[ID]uint64{}, map[ID]time.Duration{}
		}
		p.plan.epochs[id] = o.value.Epoch
	}
}

// noteRefusals finds moves that their owners have given up, and leaves these groups alone for
// a while: hosts have waited for nothing.
func (p *planner) noteRefusals() {
	for id, epoch := range p.plan.epochs {
		if p.view.moves.find(moveKey(id)) != nil {
			continue
		}
		delete(p.plan.epochs, id)
		if o := p.view.owners.find(ownerKey(id)); o != nil && o.value.Epoch == epoch {
			p.plan.avoided[id] = p.now + 20*p.cfg.Settle
		}
	}
}

// dropMoves removes moves of groups without an owner, or to where they are or cannot be.
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

// movable is the owner of a group that can be moved now.
func (v *view) movable(id ID) *entry[Owner] {
	o := v.owners.find(ownerKey(id))
	if o == nil || o.err != nil || o.value.Phase != Owned || v.living(o.value.Incarnation) == nil || v.moves.find(moveKey(id)) != nil {
		return nil
	}
	return o
}

// noteStuck notes since when gateways are stuck. If all are, the storage is, and moves are of
// no use.
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

// stuckForLong leaves gateways alone that are stuck no longer than others may have been
// before: the storage itself has paused.
func (p *planner) stuckForLong(name string) bool {
	since := p.plan.stuck[name]
	return since > 0 && p.now >= since+p.cfg.Settle
}

// evacuate moves groups away from gateways that are to have none.
func (p *planner) evacuate(most int) (n int) {
	for i := range p.groups {
		g := &p.groups[i]
		o := p.view.movable(g.ID)
		if o == nil || n >= most || p.full() {
			continue
		}
		name, b := o.value.Owner, p.view.beat(&p.view.living(o.value.Incarnation).value)
		reason := ReasonDrain
		leaving := b.Leaving || o.value.Incarnation == p.inc && p.leaving > 0
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

// failBack moves groups to the gateways that are preferred.
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

// balance moves groups from the gateway with the most I/O to that with the least, while it
// is worth it.
func (p *planner) balance(most int) (n int) {
	moved := map[ID]bool{}
	for ; n < most && len(p.cs) > 1 && !p.full(); n++ {
		from, to, mean := p.cs[0], p.cs[0], uint64(0)
		for _, k := range p.cs {
			mean += k.sum / uint64(len(p.cs))
			if k.sum > from.sum {
				from = k
			}
			if k.sum < to.sum {
				to = k
			}
		}
		g, weight := p.worthiest(from, to, mean/10, moved)
		if g == nil {
			return n
		}
		moved[g.ID] = true
		p.order(p.view.owners.find(ownerKey(g.ID)), g.ID, Move{To: to.value().Name, Reason: ReasonBalance})
		from.sum -= weight
		to.sum += weight
	}
	return n
}

// worthiest is the group whose move makes the greater of two sums least, if that is less than
// now by more than a margin.
func (p *planner) worthiest(from, to *candidate, margin uint64, moved map[ID]bool) (found *Group, weight uint64) {
	least := from.sum - min(from.sum, margin+1)
	for i := range p.groups {
		g := &p.groups[i]
		o := p.view.movable(g.ID)
		if o == nil || moved[g.ID] || o.value.Incarnation != from.value().Incarnation || g.Preferred == o.value.Owner ||
			!to.takes(g) || p.now < p.plan.avoided[g.ID] {
			continue
		}
		w := p.weight[g.ID]
		if after := max(from.sum-min(from.sum, w), to.sum+w); after <= least {
			found, weight, least = g, w, after-min(after, 1)
		}
	}
	return found, weight
}
