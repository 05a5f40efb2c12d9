package config

import (
	"maps"
	"slices"
)

// host compares what a host may do. A namespace that comes may have the number of another, which the host could use: what it
// may do less with such a number is taken from it before. coming are those numbers.
func (d *differ) host(old, now *Subsystem, x matched[*Host], coming []int) {
	if x.same() {
		return
	}
	c := Change{Kind: KindHost, Subsystem: now.NQN, Name: x.key}
	if f := x.changes(); len(f) > 0 {
		c.Op, c.Fields, c.Old, c.New = Alter, f, x.old, x.new
		if x.old.loses(x.new, coming) {
			least := x.old.least(x.new)
			early := c
			early.Fields, early.New = fieldChanges(x.old, least), least
			d.add(phaseBar, early)
			c.Fields, c.Old = fieldChanges(least, x.new), least
		}
		if len(c.Fields) > 0 {
			d.add(phaseHost, c)
		}
		return
	}
	out, in := phaseClose, phaseHost
	if old.AllowAnyHost && now.AllowAnyHost { // without its name it may use everything
		out = phaseHost
		if x.new != nil && new(Host).loses(x.new, coming) {
			in = phaseBar
		}
	}
	d.edge(out, in, c, x.old, x.new)
}

// ranks are in ascending order.
var ranks = map[Access]int{"none": 1, "read": 2, "": 3, "write": 3}

// lesser is the one of two rights that allows less.
func lesser(a, b Access) Access {
	if ranks[b] < ranks[a] {
		return b
	}
	return a
}

// rightTo is what the host may do with a namespace.
func (h *Host) rightTo(nsid int) Access {
	if i := slices.IndexFunc(h.Namespaces, func(r *Right) bool { return r.NSID == nsid }); i >= 0 {
		return h.Namespaces[i].Access
	}
	return h.Access
}

// loses reports whether a host may do less, as another document has it, with one of these namespaces.
func (h *Host) loses(now *Host, nsids []int) bool {
	return slices.ContainsFunc(nsids, func(id int) bool { return ranks[now.rightTo(id)] < ranks[h.rightTo(id)] })
}

// least is the host as another document has it, with no right that it does not have in both.
func (h *Host) least(now *Host) *Host {
	least, named := *now, map[int]bool{}
	least.Access, least.Namespaces = lesser(now.Access, h.Access), nil
	for _, r := range slices.Concat(h.Namespaces, now.Namespaces) {
		named[r.NSID] = true
	}
	all := ranks[now.Access] <= ranks[h.Access] // it has all that now has
	for _, id := range slices.Sorted(maps.Keys(named)) {
		right := lesser(now.rightTo(id), h.rightTo(id))
		all = all && ranks[right] == ranks[now.rightTo(id)]
		if ranks[right] != ranks[least.Access] {
			if right == "" {
				right = "write"
			}
			least.Namespaces = append(least.Namespaces, &Right{NSID: id, Access: right})
		}
	}
	if all {
		return now
	}
	return &least
}
