package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Op is what is done to an object.
type Op string

const (
	Add    Op = "add"
	Alter  Op = "change"
	Remove Op = "remove"
)

// Kind is what an object is.
type Kind string

const (
	KindTarget     Kind = "target" // what TakeSettings takes, which need a restart
	KindListener   Kind = "listener"
	KindANAGroup   Kind = "ana-group"
	KindSubsystem  Kind = "subsystem"
	KindHost       Kind = "host"
	KindNamespace  Kind = "namespace"
	KindReferral   Kind = "referral"
	KindSize       Kind = "size of namespace"
	KindVisibility Kind = "subsystem access" // of a subsystem: on which listeners it is, and whether to any host
)

// A FieldChange is a field with its value before and after; empty is the default.
type FieldChange struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// A Change is one step from a document to another.
type Change struct {
	Op        Op
	Kind      Kind
	Subsystem nvmeof.NQN // of hosts and namespaces
	Listener  int        // of ANA groups
	Name      string     // of the object: its NQN, number or address
	Fields    []FieldChange
	Cause     string // why something is removed that the wanted document has
	Loses     bool   // data that nothing brings back: that of memory

	kept bool // what is removed comes back with the same store

	// Old and New are the object: *Document, *Listener, *ANAGroup, *Subsystem,
	// *Host, *Namespace or *Referral. Old is nil for Add, New for Remove.
	Old, New any
}

// Inverse undoes a change.
func (c Change) Inverse() Change {
	c.Old, c.New, c.Loses = c.New, c.Old, false
	switch c.Op {
	case Add:
		c.Op = Remove
	case Remove:
		c.Op = Add
	}
	fields := slices.Clone(c.Fields)
	for i, f := range fields {
		fields[i] = FieldChange{f.Name, f.To, f.From}
	}
	c.Fields = fields
	return c
}

// String is the change as an administrator reads it.
func (c Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", c.Op, c.Kind)
	if c.Name != "" {
		b.WriteString(" " + c.Name)
	}
	switch {
	case c.Subsystem != "":
		fmt.Fprintf(&b, " of %s", c.Subsystem)
	case c.Listener > 0:
		fmt.Fprintf(&b, " of listener %d", c.Listener)
	}
	for i, f := range c.Fields {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(", ")
		}
		from, to := f.From, f.To
		if from == "" {
			from = "default"
		}
		if to == "" {
			to = "default"
		}
		fmt.Fprintf(&b, "%s %s -> %s", f.Name, from, to)
	}
	if c.Cause != "" {
		fmt.Fprintf(&b, " (%s)", c.Cause)
	}
	if c.Loses {
		b.WriteString("; its data is lost")
	}
	return b.String()
}

// A differ collects changes by their phase.
type differ struct {
	phases [phases][]Change
}

// The order of changes: what has to go first makes room, then comes what hosts will see,
// and then the hosts, so that nobody meets half of it. Listeners open when everything is
// there: a host that comes back after a restart is not answered before that. One that was
// refused because of what is still to come would give its disks up. A subsystem that goes is
// emptied first, and stays until nothing can fail any more: it knows what hosts have set there.
const (
	phaseTarget = iota
	phaseClose  // referrals and hosts go
	phaseRemove // namespaces go
	phaseUnlisten
	phaseANA
	phaseSubsystem
	phaseBar // hosts that must not use what comes: see differ.host
	phaseNamespace
	phaseHost
	phaseVisible
	phaseRefer
	phaseListen
	phaseGrow  // as late as possible, as it cannot be taken back
	phaseLeave // subsystems go
	phases
)

// Diff tells how one document becomes another, in an order in which that can be
// done. What cannot be changed in a thing that is there is a removal and an
// addition, with the cause.
func Diff(from, to *Document) []Change {
	d := new(differ)
	if f := fieldChanges(from, to); len(f) > 0 {
		d.add(phaseTarget, Change{Op: Alter, Kind: KindTarget, Fields: f, Old: from, New: to})
	}
	d.listeners(from.Listeners, to.Listeners)
	d.subsystems(from.Subsystems, to.Subsystems)
	for _, x := range match(from.Referrals, to.Referrals, (*Referral).key) {
		if f := x.changes(); x.old != nil && x.new != nil && len(f) > 0 {
			d.replace(phaseClose, phaseRefer, Change{Kind: KindReferral, Name: x.key}, x.old, x.new, f)
			continue
		}
		d.edge(phaseClose, phaseRefer, Change{Kind: KindReferral, Name: x.key}, x.old, x.new)
	}
	return slices.Concat(d.phases[:]...)
}

func (d *differ) add(phase int, c Change) { d.phases[phase] = append(d.phases[phase], c) }

// edge notes that a thing comes or goes, if it does.
func (d *differ) edge(out, in int, c Change, old, now any) {
	switch missingOld, missingNew := isNil(old), isNil(now); {
	case missingOld && !missingNew:
		c.Op, c.New = Add, now
		d.add(in, c)
	case missingNew && !missingOld:
		c.Op, c.Old = Remove, old
		if n, ok := old.(*Namespace); ok {
			c.Loses = n.Memory != nil && !c.kept
		}
		d.add(out, c)
	}
}

// replace notes that a thing goes and comes back otherwise.
func (d *differ) replace(out, in int, c Change, old, now any, fields []FieldChange) {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	c.Cause = "comes back with another " + strings.Join(names, ", ")
	d.edge(out, in, c, old, nil)
	c.Cause = ""
	d.edge(out, in, c, nil, now)
}

func (d *differ) listeners(from, to []*Listener) {
	for _, x := range match(from, to, func(l *Listener) string { return strconv.Itoa(l.ID) }) {
		c := Change{Kind: KindListener, Name: x.key}
		if f := x.changes(); len(f) > 0 {
			d.replace(phaseUnlisten, phaseListen, c, x.old, x.new, f)
			continue
		}
		if x.old == nil || x.new == nil {
			d.edge(phaseUnlisten, phaseListen, c, x.old, x.new)
			continue
		}
		d.anaGroups(x.old, x.new)
	}
}

func (d *differ) anaGroups(from, to *Listener) {
	for _, x := range match(from.ANAGroups, to.ANAGroups, func(g *ANAGroup) string { return strconv.Itoa(g.Group) }) {
		n, _ := strconv.Atoi(x.key)
		old, now := x.old, x.new
		if old == nil {
			old = &ANAGroup{n, "optimized"}
		}
		if now == nil {
			now = &ANAGroup{n, "optimized"}
		}
		if f := fieldChanges(old, now); len(f) > 0 {
			d.add(phaseANA, Change{Op: Alter, Kind: KindANAGroup, Listener: to.ID, Name: x.key, Fields: f, Old: old, New: now})
		}
	}
}

func (d *differ) subsystems(from, to []*Subsystem) {
	for _, x := range match(from, to, func(s *Subsystem) string { return string(s.NQN) }) {
		c := Change{Kind: KindSubsystem, Name: x.key}
		old, now := x.old, x.new
		if f := x.changes(); len(f) > 0 {
			alter := c
			alter.Op, alter.Fields, alter.Old, alter.New = Alter, f, old, now
			d.add(phaseSubsystem, alter)
		}
		d.edge(phaseLeave, phaseSubsystem, c, old.bare(), now.bare())
		switch {
		case now == nil:
			d.leave(old, to)
		case old == nil:
			d.within(&Subsystem{NQN: now.NQN, Listeners: now.Listeners}, now)
		default:
			d.within(old, now)
		}
	}
}

// bare is a subsystem without what is in it. Where it is exposed is part of it, so
// that it is at no time elsewhere.
func (s *Subsystem) bare() *Subsystem {
	if s == nil {
		return nil
	}
	b := *s
	b.AllowAnyHost, b.Hosts, b.Namespaces = false, nil, nil
	return &b
}

// leave empties a subsystem that is removed: hosts first, so that its contents can
// be put back one by one. One whose state file another has from now on has to make room for that.
func (d *differ) leave(s *Subsystem, to []*Subsystem) {
	d.within(s, &Subsystem{NQN: s.NQN, Listeners: s.Listeners})
	if s.State == "" || !slices.ContainsFunc(to, func(x *Subsystem) bool { return x.State == s.State }) {
		return
	}
	last := len(d.phases[phaseLeave]) - 1
	d.add(phaseRemove, d.phases[phaseLeave][last])
	d.phases[phaseLeave] = d.phases[phaseLeave][:last]
}

// within compares what two subsystems of one name contain.
func (d *differ) within(old, now *Subsystem) {
	nqn := now.NQN
	if f := visibilityChanges(old, now); len(f) > 0 {
		phase := phaseVisible
		if old.AllowAnyHost && !now.AllowAnyHost {
			phase = phaseClose
		}
		d.add(phase, Change{Op: Alter, Kind: KindVisibility, Subsystem: nqn, Fields: f, Old: old, New: now})
	}
	var coming []int
	for _, x := range match(old.Namespaces, now.Namespaces, func(n *Namespace) string { return strconv.Itoa(n.NSID) }) {
		if d.namespace(nqn, x) {
			coming = append(coming, x.new.NSID)
		}
	}
	for _, x := range match(old.Hosts, now.Hosts, func(h *Host) string { return string(h.NQN) }) {
		d.host(old, now, x, coming)
	}
}

// live are the fields of a namespace that can be changed while hosts use it.
var live = []string{"read-only", "ana-group", "shared", "refuse-reservations", "file.size"}

// namespace compares a namespace, and reports whether it comes, be it in the place of another, or becomes writable.
func (d *differ) namespace(nqn nvmeof.NQN, x matched[*Namespace]) bool {
	if x.old == x.new || x.old != nil && x.new != nil && x.old.same(x.new) {
		return false
	}
	c := Change{Kind: KindNamespace, Subsystem: nqn, Name: x.key}
	f := x.changes()
	if len(f) == 0 {
		d.edge(phaseRemove, phaseNamespace, c, x.old, x.new)
		return x.old == nil && x.new != nil
	}
	for _, field := range f {
		if !slices.Contains(live, field.Name) {
			c.kept = x.old.SameStore(x.new)
			d.replace(phaseRemove, phaseNamespace, c, x.old, x.new, []FieldChange{field})
			return true
		}
	}
	c.Op, c.Old, c.New = Alter, x.old, x.new
	for _, field := range f {
		if field.Name == "file.size" {
			size := c
			size.Kind, size.Fields = KindSize, []FieldChange{field}
			d.add(phaseGrow, size)
			continue
		}
		c.Fields = append(c.Fields, field)
	}
	if len(c.Fields) > 0 {
		d.add(phaseNamespace, c)
	}
	return x.old.ReadOnly && !x.new.ReadOnly
}
