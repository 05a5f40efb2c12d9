package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Op is what a change does with an object.
type Op string

const (
	Add    Op = "add"
	Alter  Op = "change"
	Remove Op = "remove"
)

// Kind is the kind of an object.
type Kind string

const (
	KindTarget     Kind = "target" // settings that need a restart; see [Document.TakeSettings]
	KindListener   Kind = "listener"
	KindANAGroup   Kind = "ana-group"
	KindSubsystem  Kind = "subsystem"
	KindHost       Kind = "host"
	KindNamespace  Kind = "namespace"
	KindReferral   Kind = "referral"
	KindSize       Kind = "size of namespace"
	KindVisibility Kind = "subsystem access" // on which listeners a subsystem is, and whether it allows any host
)

// A FieldChange has the old and the new value of a field. An empty value is the default.
type FieldChange struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// A Change is one step from one document to another.
type Change struct {
	Op        Op
	Kind      Kind
	Subsystem nvmeof.NQN // for hosts and namespaces
	Listener  int        // for ANA groups
	Name      string     // NQN, number or address of the object
	Fields    []FieldChange
	Cause     string // why an object is removed that the new document also has
	Loses     bool   // data is lost for good: that of memory

	kept bool // an object that is removed is added again with the same store

	// Old and New are the object before and after the change: *Document, *Listener, *ANAGroup, *Subsystem, *Host,
	// *Namespace or *Referral. Old is nil for Add, New is nil for Remove.
	Old, New any
}

// Inverse returns the change that undoes c.
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

// String describes the change for an administrator.
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

// A differ collects changes by phase.
type differ struct {
	phases [phases][]Change
}

// Phases, in the order in which their changes are made. Removals come first to make room; then what hosts will see;
// then the hosts, so that none sees a change half made.
//
// Listeners open when everything else is done, so that a host that reconnects after a restart is not answered
// earlier. A host that is refused because something is not there yet would remove its disks.
//
// A subsystem that is removed is emptied first. It stays until nothing can fail any more, since it has the settings
// that hosts made.
const (
	phaseTarget = iota
	phaseClose  // remove referrals and hosts
	phaseRemove // remove namespaces
	phaseUnlisten
	phaseANA
	phaseSubsystem
	phaseRestrict // restrict hosts that must not use namespaces that are about to be added: see differ.host
	phaseNamespace
	phaseHost
	phaseVisible
	phaseRefer
	phaseListen
	phaseGrow  // as late as possible, since it cannot be undone
	phaseLeave // remove subsystems
	phases
)

// Diff returns the changes that turn one document into another, in an order in which they can be made. An object
// with a change that cannot be made in place is removed and added again; the removal has a Cause.
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
		d.addOrRemove(phaseClose, phaseRefer, Change{Kind: KindReferral, Name: x.key}, x.old, x.new)
	}
	return slices.Concat(d.phases[:]...)
}

func (d *differ) add(phase int, c Change) { d.phases[phase] = append(d.phases[phase], c) }

// addOrRemove adds the addition or the removal of an object that only one of the documents has.
func (d *differ) addOrRemove(out, in int, c Change, old, now any) {
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

// replace adds the removal of an object and the addition of its new version.
func (d *differ) replace(out, in int, c Change, old, now any, fields []FieldChange) {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	c.Cause = "is added again with another " + strings.Join(names, ", ")
	d.addOrRemove(out, in, c, old, nil)
	c.Cause = ""
	d.addOrRemove(out, in, c, nil, now)
}

func (d *differ) listeners(from, to []*Listener) {
	for _, x := range match(from, to, func(l *Listener) string { return strconv.Itoa(l.ID) }) {
		c := Change{Kind: KindListener, Name: x.key}
		if f := x.changes(); len(f) > 0 {
			d.replace(phaseUnlisten, phaseListen, c, x.old, x.new, f)
			continue
		}
		if x.old == nil || x.new == nil {
			d.addOrRemove(phaseUnlisten, phaseListen, c, x.old, x.new)
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
		d.addOrRemove(phaseLeave, phaseSubsystem, c, old.bare(), now.bare())
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

// bare returns the subsystem without hosts and namespaces. It keeps the list of listeners, so that the subsystem is
// never on others.
func (s *Subsystem) bare() *Subsystem {
	if s == nil {
		return nil
	}
	b := *s
	b.AllowAnyHost, b.Hosts, b.Namespaces = false, nil, nil
	return &b
}

// leave empties a subsystem that is removed. Its hosts are removed first, so that its contents can be restored one
// by one. If another subsystem takes over its state file, it is removed earlier to release that.
func (d *differ) leave(s *Subsystem, to []*Subsystem) {
	d.within(s, &Subsystem{NQN: s.NQN, Listeners: s.Listeners})
	if s.State == "" || !slices.ContainsFunc(to, func(x *Subsystem) bool { return x.State == s.State }) {
		return
	}
	last := len(d.phases[phaseLeave]) - 1
	d.add(phaseRemove, d.phases[phaseLeave][last])
	d.phases[phaseLeave] = d.phases[phaseLeave][:last]
}

// within compares the contents of two subsystems with the same NQN.
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

// namespace compares a namespace. It reports whether one is added, perhaps in place of another, or becomes
// writable.
func (d *differ) namespace(nqn nvmeof.NQN, x matched[*Namespace]) bool {
	if x.old == x.new || x.old != nil && x.new != nil && x.old.same(x.new) {
		return false
	}
	c := Change{Kind: KindNamespace, Subsystem: nqn, Name: x.key}
	f := x.changes()
	if len(f) == 0 {
		d.addOrRemove(phaseRemove, phaseNamespace, c, x.old, x.new)
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
