package control

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A collection is a list of a document whose items have names.
type collection[T any] struct {
	kind string
	list *[]*T
	name func(*T) string
}

func subsystems(d *config.Document) collection[config.Subsystem] {
	return collection[config.Subsystem]{"subsystem", &d.Subsystems, func(s *config.Subsystem) string { return string(s.NQN) }}
}

func hosts(s *config.Subsystem) collection[config.Host] {
	return collection[config.Host]{"host", &s.Hosts, func(h *config.Host) string { return string(h.NQN) }}
}

func namespaces(s *config.Subsystem) collection[config.Namespace] {
	return collection[config.Namespace]{"namespace", &s.Namespaces, func(n *config.Namespace) string { return itoa(n.NSID) }}
}

func listeners(d *config.Document) collection[config.Listener] {
	return collection[config.Listener]{"listener", &d.Listeners, func(l *config.Listener) string { return itoa(l.ID) }}
}

func anaGroups(l *config.Listener) collection[config.ANAGroup] {
	return collection[config.ANAGroup]{"ana-group", &l.ANAGroups, func(g *config.ANAGroup) string { return itoa(g.Group) }}
}

func referrals(d *config.Document) collection[config.Referral] {
	return collection[config.Referral]{"referral", &d.Referrals, func(r *config.Referral) string { return r.Address.String() }}
}

// find returns the item with the name.
func (c collection[T]) find(name string) (*T, error) {
	if i := c.index(name); i >= 0 {
		return (*c.list)[i], nil
	}
	var there []string
	for _, x := range *c.list {
		there = append(there, c.name(x))
	}
	return nil, &NotFoundError{c.kind, name, there}
}

// index returns the index of the item with the name, or a negative number.
func (c collection[T]) index(name string) int {
	return slices.IndexFunc(*c.list, func(x *T) bool { return c.name(x) == name })
}

func (c collection[T]) add(x *T) error {
	if c.index(c.name(x)) >= 0 {
		return &ExistsError{c.kind, c.name(x)}
	}
	*c.list = append(*c.list, x)
	return nil
}

func (c collection[T]) remove(name string) error {
	if _, err := c.find(name); err != nil {
		return err
	}
	*c.list = slices.DeleteFunc(*c.list, func(x *T) bool { return c.name(x) == name })
	return nil
}

// merge changes some fields of an item.
func (c collection[T]) merge(name string, patch *config.Patch) error {
	x, err := c.find(name)
	if err != nil {
		return err
	}
	if n, ok := any(x).(*config.Namespace); ok { // the present document shares the namespace
		x = any(n.Clone()).(*T)
	}
	if err := patch.Apply(x); err != nil {
		return err
	}
	if now := c.name(x); now != name {
		return config.Problems{{Text: c.kind + " " + name + " cannot be renamed to " + now, Fix: "remove it, and add another"}}
	}
	(*c.list)[c.index(name)] = x
	return nil
}
