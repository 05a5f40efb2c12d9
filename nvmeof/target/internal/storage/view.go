package storage

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A View is how the host of a controller sees the namespaces of a subsystem through a
// listener. Any shard may use it.
type View struct {
	Table  *atomic.Pointer[Table]     // the subsystem's
	Paths  *atomic.Pointer[ana.Table] // the listener's
	Lease  *atomic.Pointer[Lease]     // the target's; nil: it has no groups that end by themselves
	Rights atomic.Pointer[access.Rights]

	Identifications
}

// Find returns the namespace if the host may see it, also one that is away, or nil.
func (v *View) Find(id capsule.NSID) *Namespace {
	n := v.Table.Load().At(id)
	if n == nil || !v.Rights.Load().See(id) {
		return nil
	}
	return n
}

// Have returns the namespace of a command that needs no accessible path, or the status of
// its failure. For one that is away the host is to retry.
func (v *View) Have(id capsule.NSID) (*Namespace, capsule.Status) {
	switch n := v.Find(id); {
	case n == nil:
		return nil, capsule.StatusInvalidNamespace | capsule.StatusDNR
	case n.Away():
		return nil, v.awayStatus(n)
	default:
		return n, capsule.StatusSuccess
	}
}

// awayStatus is the status of commands for a namespace that is away: that of its group, while
// another target serves that.
func (v *View) awayStatus(n *Namespace) capsule.Status {
	if s := v.Paths.Load().Status(n.Shown()); s != capsule.StatusSuccess {
		return s
	}
	return capsule.StatusANAInaccessible
}

// Lookup is Find for an identifier that must be valid: one that never can name a
// namespace gives an error; an inactive one gives nil.
func (v *View) Lookup(id capsule.NSID) (*Namespace, capsule.Status) {
	if id == 0 || id > MaxNamespace {
		return nil, capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	return v.Find(id), capsule.StatusSuccess
}

// Reach returns the namespace of a command that needs an accessible path, or the status
// of its failure.
func (v *View) Reach(id capsule.NSID) (*Namespace, capsule.Status) {
	n, s := v.Have(id)
	if n == nil {
		return nil, s
	}
	if s := v.Paths.Load().Status(n.Shown()); s != capsule.StatusSuccess {
		return nil, s
	}
	if v.Lease != nil && v.Lease.Load().Over(n.Group()) { // which the paths do not show yet
		return nil, capsule.StatusANAInaccessible
	}
	return n, capsule.StatusSuccess
}

// State is the ANA state of a namespace.
func (v *View) State(n *Namespace) capsule.ANAState { return v.Paths.Load().State(n.Shown()) }

// MayWrite reports whether the host may change blocks of a namespace.
func (v *View) MayWrite(n *Namespace) bool {
	return !n.Volume.Info.ReadOnly && v.permits(n)
}

func (v *View) permits(n *Namespace) bool {
	return !n.ReadOnly() && n.Protection() == capsule.WriteProtectNone && v.Rights.Load().To(n.ID) == access.Write
}

// Protected reports whether the host is told that it may not change blocks of a namespace,
// which may be away.
func (v *View) Protected(n *Namespace) bool {
	shape, _ := n.Shape()
	return shape.Info.ReadOnly || !v.permits(n)
}

// Last is the highest identifier that a namespace of the subsystem may have at the time.
func (v *View) Last() capsule.NSID { return v.Table.Load().Last() }

// Listed yields the namespaces that the host sees, ascending, with those that are away.
func (v *View) Listed(yield func(*Namespace) bool) {
	r := v.Rights.Load()
	for n := range v.Table.Load().Listed {
		if r.See(n.ID) && !yield(n) {
			return
		}
	}
}

// All yields the namespaces that the host sees and that are not away, ascending.
func (v *View) All(yield func(*Namespace) bool) {
	for n := range v.Listed {
		if !n.Away() && !yield(n) {
			return
		}
	}
}

// Above lists the identifiers, greater than id, of those that the host sees.
func (v *View) Above(id capsule.NSID) (ids []capsule.NSID) {
	for n := range v.Listed {
		if n.ID > id {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Members are the namespaces that the host sees, by ANA group.
func (v *View) Members() *ana.Members {
	m := new(ana.Members)
	for n := range v.Listed {
		m.Add(n.Shown(), n.ID)
	}
	return m
}

// Sees reports whether the host has namespaces of a group.
func (v *View) Sees(g capsule.ANAGroup) bool {
	for n := range v.Listed {
		if n.Shown() == g {
			return true
		}
	}
	return false
}
