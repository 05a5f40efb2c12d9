package storage

import (
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// MaxNamespace is NN and MNAN: the highest namespace identifier.
const MaxNamespace = 4096

// An Identity has the identifiers by which hosts identify a namespace.
type Identity struct {
	ID    capsule.NSID
	UUID  uuid.UUID
	NGUID [16]byte
	EUI64 [8]byte // zero: none
}

// Clashes reports whether hosts would take two namespaces for the same one.
func (i *Identity) Clashes(o *Identity) bool {
	return i.UUID == o.UUID || i.NGUID == o.NGUID || i.EUI64 == o.EUI64 && i.EUI64 != [8]byte{}
}

// A Namespace is one export of a volume. A namespace that was never opened has no volume, and is away: hosts find
// it listed, and inaccessible.
type Namespace struct {
	Identity
	Volume *Volume // constant after Volumes.Acquire, before shards see the namespace

	// Generation is greater than that of the previous namespace with the NSID, unless hosts cannot distinguish the
	// two. Successor means that there was a distinguishable one. Both are constant once shards see the namespace.
	Generation uint32
	Successor  bool

	// Former has the reservations from before the namespace went away; the volume with which it returns gets them.
	// Nil: none. Constant once shards see the namespace.
	Former *Reservations

	// Known is what hosts are told of the namespace while it is away; nil: that it is not ready. Constant once
	// shards see the namespace.
	Known *Shape

	elsewhere  atomic.Bool                     // see SetElsewhere
	remembered atomic.Pointer[Reservations]    // see Remember
	gates      [MaxShards]atomic.Pointer[Gate] // by shard; each exists before its shard has queues
	before     health.Counts                   // see Resume; constant once shards see the namespace
	readOnly   atomic.Bool
	paused     atomic.Bool   // see SetPaused
	unreserved atomic.Bool   // hosts cannot reserve it
	group      atomic.Uint32 // ANA
	protection protection
	shut       bool // all gates are shut, including later ones; under the mutex of Volumes
}

// NewNamespace returns a namespace without a volume.
func NewNamespace(i Identity, g capsule.ANAGroup, readOnly bool) *Namespace {
	n := &Namespace{Identity: i}
	n.readOnly.Store(readOnly)
	n.SetGroup(g)
	return n
}

// ReadOnly reports whether an administrator made the namespace read-only, for all hosts.
func (n *Namespace) ReadOnly() bool { return n.readOnly.Load() }

// SetReadOnly sets ReadOnly, and reports whether that is a change.
func (n *Namespace) SetReadOnly(on bool) (changed bool) { return n.readOnly.Swap(on) != on }

// Paused reports whether an administrator has paused the namespace.
func (n *Namespace) Paused() bool { return n.paused.Load() }

// SetPaused sets Paused, which is only for information.
func (n *Namespace) SetPaused(on bool) { n.paused.Store(on) }

// Reservable reports whether hosts can reserve the namespace.
func (n *Namespace) Reservable() bool { return !n.unreserved.Load() }

// SetReservable sets Reservable, and reports whether that is a change.
func (n *Namespace) SetReservable(on bool) (changed bool) { return n.unreserved.Swap(!on) == on }

// Away reports whether the namespace has no volume.
func (n *Namespace) Away() bool { return n.Volume == nil }

// Group returns the ANA group that the administrator chose.
func (n *Namespace) Group() capsule.ANAGroup { return capsule.ANAGroup(n.group.Load()) }

// Shown returns the ANA group in which hosts find the namespace.
func (n *Namespace) Shown() capsule.ANAGroup {
	if n.Away() && !n.Elsewhere() {
		return ana.Away
	}
	return n.Group()
}

// SetElsewhere sets whether a namespace is away because another target serves its group. Then hosts find it in its
// group, which is not accessible here. It reports whether that is a change. It has no effect if Known is nil.
func (n *Namespace) SetElsewhere(on bool) (changed bool) {
	return n.elsewhere.Swap(on && n.Known != nil) != (on && n.Known != nil)
}

// SetGroup moves the namespace to another group.
func (n *Namespace) SetGroup(g capsule.ANAGroup) { n.group.Store(uint32(g)) }

// Elsewhere reports whether another target serves the namespace.
func (n *Namespace) Elsewhere() bool { return n.Away() && n.elsewhere.Load() }

// open gives the namespace gates for the lanes of its volume. Called with the mutex of Volumes held.
func (n *Namespace) open(v *Volume, shards []*Shard) {
	if n.Volume == nil { // when a device is added, shards read Volume already
		n.Volume = v
	}
	for _, p := range shards {
		g := n.gates[p.Index].Load()
		if g == nil {
			g = &Gate{Namespace: n, Lane: v.lanes[p.Index].Load()}
			n.gates[p.Index].Store(g)
		}
		g.shut = n.shut
	}
}

// Gate returns the gate of a shard that has queues.
func (n *Namespace) Gate(i Index) *Gate { return n.gates[i].Load() }

// Reservations returns those of the volume or, while the namespace is away, its earlier ones; nil if there are
// none.
func (n *Namespace) Reservations() *Reservations {
	if n.Volume != nil {
		return n.Volume.Reservations
	}
	if r := n.remembered.Load(); r != nil {
		return r
	}
	return n.Former
}

// Remember sets the reservations of a namespace that another target serves.
func (n *Namespace) Remember(s reservation.State) { n.remembered.Store(Remembered(s)) }

// Inherit takes over the settings of hosts from a namespace that was away and is the same to hosts.
func (n *Namespace) Inherit(was *Namespace) {
	n.remembered.Store(was.remembered.Load())
	n.Protect(was.Protection())
}

// A Table has a subsystem's namespaces at one time, including those that are away. It is immutable.
type Table struct{ at []*Namespace } // by NSID; index 0 is empty

// At returns the namespace, which may be away, or nil.
func (t *Table) At(id capsule.NSID) *Namespace {
	if uint64(id) >= uint64(len(t.at)) {
		return nil
	}
	return t.at[id]
}

// Get returns the namespace if it exists and is not away, or nil.
func (t *Table) Get(id capsule.NSID) *Namespace {
	if n := t.At(id); n != nil && !n.Away() {
		return n
	}
	return nil
}

// Listed yields all namespaces, ascending, including those that are away.
func (t *Table) Listed(yield func(*Namespace) bool) {
	for _, n := range t.at {
		if n != nil && !yield(n) {
			return
		}
	}
}

// All yields the namespaces that are not away, ascending.
func (t *Table) All(yield func(*Namespace) bool) {
	for _, n := range t.at {
		if n != nil && !n.Away() && !yield(n) {
			return
		}
	}
}

// With returns a table with the namespace at id replaced; nil removes it.
func (t *Table) With(id capsule.NSID, n *Namespace) *Table {
	out := Table{make([]*Namespace, max(len(t.at), int(id)+1))}
	copy(out.at, t.at)
	out.at[id] = n
	return &out
}

// Last returns an upper bound of the identifiers in the table.
func (t *Table) Last() capsule.NSID { return capsule.NSID(max(len(t.at), 1) - 1) }

// Free returns the lowest identifier without a namespace for which taken returns false.
func (t *Table) Free(taken func(capsule.NSID) bool) capsule.NSID {
	for id := capsule.NSID(1); ; id++ {
		if t.At(id) == nil && !taken(id) {
			return id
		}
	}
}
