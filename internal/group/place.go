package group

import (
	"slices"
)

// A candidate is a gateway that may own more groups, and its I/O.
type candidate struct {
	entry *entry[Member]
	sum   uint64
}

func (c *candidate) value() *Member { return &c.entry.value }

// takes reports whether a gateway may own a group: it must be possible to fence it if the group requires that.
func (c *candidate) takes(g *Group) bool {
	switch g.Backend {
	case None:
		return c.value().Name == g.Preferred
	case Fenced:
		return len(c.value().Storage) > 0
	}
	return true
}

// candidates returns the gateways that are alive, not drained, and well; if none is well, those that are sick.
func (e *Engine) candidates() []*candidate {
	var well, sick []*candidate
	for i := range e.view.members {
		m := &e.view.members[i]
		if !e.alive(m) || e.view.drained(m.value.Name) {
			continue
		}
		b := e.view.beat(&m.value)
		self := m.value.Incarnation == e.inc
		c := &candidate{m, 0}
		switch {
		case m.value.Leaving || self && e.leaving > 0:
		case b.Sick || self && e.isSick():
			sick = append(sick, c)
		default:
			well = append(well, c)
		}
	}
	if len(well) == 0 {
		well = sick
	}
	slices.SortFunc(well, func(a, b *candidate) int { return rank(a.entry, b.entry) })
	e.sum(well)
	return well
}

// sum adds up the I/O of each candidate, as it will be after the moves in progress.
func (e *Engine) sum(cs []*candidate) {
	for _, g := range e.groups {
		o := e.view.owner(g.ID)
		if o == nil || o.value.Phase != Owned {
			continue
		}
		name := o.value.Owner
		if m := e.view.move(g.ID); m != nil {
			name = m.value.To
		} else if e.view.living(o.value.Incarnation) == nil {
			continue
		}
		if c := named(cs, name); c != nil {
			c.sum += e.weight[g.ID]
		}
	}
}

func named(cs []*candidate, name string) *candidate {
	for _, c := range cs {
		if c.value().Name == name {
			return c
		}
	}
	return nil
}

// weigh notes the I/O of each group, and adds a constant so that groups without I/O are spread too.
func (e *Engine) weigh() {
	var total uint64
	e.weight = make(map[ID]uint64, len(e.groups))
	known := make(map[ID]uint64, len(e.groups))
	for _, g := range e.groups {
		known[g.ID] = e.view.reported(g.ID, e.reports[g.ID])
		e.weight[g.ID] = known[g.ID]
		total += known[g.ID]
	}
	e.reports, e.load = known, total
	for _, g := range e.groups {
		e.weight[g.ID] += 1 + total/uint64(8*len(e.groups))
	}
}

// reported returns the I/O that the owner of a group reports. An owner without a report yet counts as having the
// previous owner's I/O.
func (v *view) reported(id ID, before uint64) uint64 {
	if o := v.owner(id); o != nil && o.value.Phase == Owned {
		if b := v.beats.find(beatKey(o.value.Owner)); b != nil && b.value.Incarnation == o.value.Incarnation {
			if n, ok := b.value.Loads[id]; ok {
				return n
			}
		}
	}
	return before
}

// best returns the candidate with the least I/O that may own a group, other than the one named not.
func best(cs []*candidate, g *Group, not string) (found *candidate) {
	if g == nil {
		return nil
	}
	for _, c := range cs {
		if c.value().Name != not && c.takes(g) && (found == nil || c.sum < found.sum) {
			found = c
		}
	}
	return found
}

// planner reports whether this gateway is the first one that is alive; it plans moves. Two planners do no harm, since
// all changes compare.
func (e *Engine) planner() bool {
	own := e.own()
	if own == nil {
		return false
	}
	for i := range e.view.members {
		if m := &e.view.members[i]; e.alive(m) && rank(m, own) < 0 {
			return false
		}
	}
	return true
}
