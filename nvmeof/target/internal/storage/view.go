package storage

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// A View is the view that the host of a controller has of the namespaces of a subsystem through a listener. Any
// shard may use it.
type View struct {
	Table  *atomic.Pointer[Table]     // the subsystem's
	Paths  *atomic.Pointer[ana.Table] // the listener's
	Lease  *atomic.Pointer[Lease]     // the target's; nil if it is no gateway
	Rights atomic.Pointer[access.Rights]

	Identifications
}

// Find returns the namespace, which may be away, if the host may see it, or nil.
func (v *View) Find(id capsule.NSID) *Namespace {
	n := v.Table.Load().At(id)
	if n == nil || !v.Rights.Load().See(id) {
		return nil
	}
	return n
}

// Have returns the namespace of a command that needs no accessible path, or the status with which the command
// fails. If the namespace is away, the host should retry.
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

// awayStatus returns the status of commands for a namespace that is away: that of its group while another target
// serves the group.
func (v *View) awayStatus(n *Namespace) capsule.Status {
	if s := v.Paths.Load().Status(n.Shown()); s != capsule.StatusSuccess {
		return s
	}
	return capsule.StatusANAInaccessible
}

// Lookup is Find for an identifier that must be valid: it returns an error for one that can never name a
// namespace, and nil for an inactive one.
func (v *View) Lookup(id capsule.NSID) (*Namespace, capsule.Status) {
	if id == 0 || id > MaxNamespace {
		return nil, capsule.StatusInvalidNamespace | capsule.StatusDNR
	}
	return v.Find(id), capsule.StatusSuccess
}

// Reach returns the namespace of a command that needs an accessible path, or the status with which the command
// fails.
func (v *View) Reach(id capsule.NSID) (*Namespace, capsule.Status) {
	n, s := v.Have(id)
	if n == nil {
		return nil, s
	}
	if s := v.Paths.Load().Status(n.Shown()); s != capsule.StatusSuccess {
		return nil, s
	}
	if v.Lease != nil && v.Lease.Load().Over(n.Group()) { // Paths does not contain that yet
		return nil, capsule.StatusANAInaccessible
	}
	return n, capsule.StatusSuccess
}

// State returns the ANA state of a namespace.
func (v *View) State(n *Namespace) capsule.ANAState { return v.Paths.Load().State(n.Shown()) }

// MayWrite reports whether the host may change blocks of a namespace.
func (v *View) MayWrite(n *Namespace) bool {
	return !n.Volume.Info.ReadOnly && v.permits(n)
}

func (v *View) permits(n *Namespace) bool {
	return !n.ReadOnly() && n.Protection() == capsule.WriteProtectNone && v.Rights.Load().To(n.ID) == access.Write
}

// Protected reports whether the host is told that it may not change blocks of a namespace, which may be away.
func (v *View) Protected(n *Namespace) bool {
	shape, _ := n.Shape()
	return shape.Info.ReadOnly || !v.permits(n)
}

// Last returns an upper bound of the current namespace identifiers of the subsystem.
func (v *View) Last() capsule.NSID { return v.Table.Load().Last() }

// Listed yields the namespaces that the host sees, ascending, including those that are away.
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

// Above lists the identifiers greater than id of namespaces that the host sees.
func (v *View) Above(id capsule.NSID) (ids []capsule.NSID) {
	for n := range v.Listed {
		if n.ID > id {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Members returns the namespaces that the host sees, by ANA group.
func (v *View) Members() *ana.Members {
	m := new(ana.Members)
	for n := range v.Listed {
		m.Add(n.Shown(), n.ID)
	}
	return m
}

// Sees reports whether the host sees namespaces of a group.
func (v *View) Sees(g capsule.ANAGroup) bool {
	for n := range v.Listed {
		if n.Shown() == g {
			return true
		}
	}
	return false
}
