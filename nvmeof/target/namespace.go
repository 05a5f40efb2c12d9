package target

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// NamespaceConfig describes a namespace. A zero field takes the default.
type NamespaceConfig struct {
	// Store is required; the caller closes it. Namespaces of several subsystems may have the same store, which is
	// then opened once.
	Store    backend.Store
	NSID     capsule.NSID     // 1 to 4096; default: the lowest free one
	ReadOnly bool             // for all hosts; see Namespace.SetReadOnly
	Group    capsule.ANAGroup // 1 to 128; default 1; see Listener.SetANAState
	// UUID identifies the namespace permanently; the default is derived from the subsystem's NQN, the NSID and
	// Name, so that it survives a restart. If the store is a [backend.Marked] it is also derived from its mark, so
	// that a store with new content gets another UUID.
	UUID uuid.UUID
	// NGUID is another identifier; default: the UUID.
	NGUID [16]byte
	// EUI64 is a third identifier, whose first three bytes belong to the organization that assigned it; default:
	// none.
	EUI64 [8]byte
	Name  string // what is exported, for logs, such as a path; default: the type of Store
	// Known describes the store for [Subsystem.AwaitNamespace]: hosts find the namespace with this size, and in
	// its own ANA group if [Config.Gateway] does not serve that. Default: nothing is known, and hosts find the
	// namespace not ready.
	Known *backend.Info

	// Reservations saves the hosts' reservation across a power loss, if they request that; default: nothing, so
	// that they cannot. If the store is exported already, the Reservations of its first namespace is used.
	Reservations ReservationStore
	// Keeper keeps the hosts' reservation for several targets, instead of Reservations. With [Config.Gateway],
	// hosts cannot reserve a namespace without a Keeper: the reservation would end when another target takes over.
	Keeper ReservationKeeper
	// RefuseReservations refuses reservations of the namespace; see Namespace.SetRefuseReservations.
	RefuseReservations bool
}

// A Namespace is an export of a volume by a subsystem, with its identifiers.
type Namespace struct {
	subsystem *Subsystem
	ns        *storage.Namespace // for shards

	// The rest is protected by Subsystem.change.
	removed bool
	unkept  bool        // several targets serve it, and no Keeper keeps its reservations for the others; constant
	pause   *time.Timer // ends the pause; nil: not paused
	pauses  uint64      // the number of pauses so far
	pausing *time.Timer // ends the time that Pause waits for commands; nil: it does not wait
}

// A StateError says that a namespace is not in the state that an operation requires: for example, it is not
// paused, or has not failed.
type StateError struct {
	Subsystem nvmeof.NQN
	NSID      capsule.NSID
	Err       error
}

func (e *StateError) Error() string {
	if e.NSID == 0 {
		return fmt.Sprintf("namespaces of %s: %v", e.Subsystem, e.Err)
	}
	return fmt.Sprintf("namespace %d of %s: %v", e.NSID, e.Subsystem, e.Err)
}

func (e *StateError) Unwrap() error { return e.Err }

func (n *Namespace) unfit(why error) error { return &StateError{n.subsystem.nqn, n.ns.ID, why} }

func (n *Namespace) is(o *storage.Namespace) bool { return n.ns == o }

// ID returns the namespace's identifier.
func (n *Namespace) ID() capsule.NSID { return n.ns.ID }

// UUID returns the identifier of the namespace across subsystems and restarts.
func (n *Namespace) UUID() uuid.UUID { return n.ns.UUID }

// Info describes the store, with the size that is reported to hosts.
func (n *Namespace) Info() backend.Info {
	info := n.ns.Volume.Info
	info.Size = int64(n.ns.Volume.Bytes())
	return info
}

// Trouble describes a fault of the store that an administrator has to repair: the file or device does not answer,
// is no longer at its path, became shorter, accepts no writes, or has little space left. It is empty if there is
// none, and at most as old as Config.Revalidate.
func (n *Namespace) Trouble() string {
	if n.ns.Volume == nil {
		return "" // it is away
	}
	since, silent := n.ns.Volume.Silent(time.Now())
	switch h := n.ns.Volume.Health.Load(); {
	case silent:
		return fmt.Sprintf("its store has not answered since %s: check its file system or device", since.Format(time.TimeOnly))
	case h.Lost != "":
		return h.Lost
	case h.Cut != "":
		return h.Cut
	case h.Failed:
		return "its store has failed and refuses writes: see the log, fix the cause, then nvmeof namespace clear-fault"
	case h.Short():
		return fmt.Sprintf("its storage is running out: %d %% is left of the space that it may still need, and without space writes fail; free space in the file system, or preallocate the file", h.Spare)
	}
	return ""
}

// makeNamespace creates a namespace, and sets the identifiers that were not configured.
func makeNamespace(s *Subsystem, c NamespaceConfig) *Namespace {
	if c.UUID == uuid.Nil {
		name := fmt.Appendf(nil, "%s\x00%d\x00%s", string(s.nqn), c.NSID, c.Name)
		if m, ok := c.Store.(backend.Marked); ok && len(m.Mark()) > 0 {
			name = append(append(name, 0), m.Mark()...)
		}
		c.UUID = uuid.NewSHA1(uuid.NameSpaceURL, name)
	}
	if c.NGUID == [16]byte{} {
		c.NGUID = c.UUID
	}
	i := storage.Identity{ID: c.NSID, UUID: c.UUID, NGUID: c.NGUID, EUI64: c.EUI64}
	n := &Namespace{subsystem: s, ns: storage.NewNamespace(i, c.Group, c.ReadOnly)}
	n.unkept = s.target.cfg.Gateway != nil && c.Keeper == nil
	n.ns.SetReservable(!c.RefuseReservations && !n.unkept)
	return n
}

// A lineage is the identity of the last namespace at an NSID, as hosts see it.
type lineage struct {
	identity   storage.Identity
	shift      uint
	generation uint32
	successor  bool
}

// succeed gives a namespace its generation: that of the previous namespace at the NSID if hosts cannot distinguish
// the two. Another block size distinguishes them, since the same LBA then means other bytes. It reports whether
// hosts can distinguish them. Called with change held.
func (s *Subsystem) succeed(n *storage.Namespace) (another bool) {
	shape, known := n.Shape()
	if !known {
		return false
	}
	before, there := s.past[n.ID]
	now := lineage{n.Identity, shape.Shift, before.generation, before.successor}
	if now != before {
		now.generation, now.successor = s.generation.Add(1), there
		another = there
	}
	n.Generation, n.Successor = now.generation, now.successor
	s.past[n.ID] = now
	if another {
		dropNotices(s, n.ID)
	}
	return another
}
