package target

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// maxNamespaces is NN and MNAN: the highest namespace identifier.
const maxNamespaces = 1024

// NamespaceConfig describes a namespace. A zero field takes the default.
type NamespaceConfig struct {
	// Store is required, and stays the caller's to close. Namespaces of several
	// subsystems may have the same one: it is opened once.
	Store    backend.Store
	NSID     capsule.NSID     // 1 to 1024; default: the lowest free one
	ReadOnly bool             // for all hosts; see Namespace.SetReadOnly
	Group    capsule.ANAGroup // 1 to 128; default 1; see Listener.SetANAState
	// UUID identifies the namespace for good; default: derived from the
	// subsystem's NQN, the NSID and Name, so that it survives a restart.
	UUID uuid.UUID
	// NGUID is another identifier of the same; default: the UUID.
	NGUID [16]byte
	// EUI64 is a third, whose first three bytes belong to whoever assigned it;
	// default: none.
	EUI64 [8]byte
	Name  string // what is exported, for logs: a path, say

	// Reservations keeps the hosts' reservation through a power loss, where they ask
	// for that; default: nothing, so that they cannot. Of a store that is exported
	// already the first namespace's counts.
	Reservations ReservationStore
}

// A Namespace is one export of a subsystem: a volume, and who sees it how.
type Namespace struct {
	volume    *volume.Volume
	subsystem *Subsystem
	id        capsule.NSID
	uuid      uuid.UUID
	nguid     [16]byte
	eui64     [8]byte
	gates     [volume.MaxPlaces]atomic.Pointer[gate] // by shard; each is there before its shard has queues
	readOnly  atomic.Bool
	protected atomic.Uint32 // capsule.WriteProtection, set by hosts
	group     atomic.Uint32 // ANA
	shut      bool          // gates are, and those that come; under Target.volumes

	// Under Subsystem.change.
	removed bool
	pause   *time.Timer // ends it; nil: commands are not held
	pauses  uint64      // counts them
}

// ID is the namespace's identifier.
func (n *Namespace) ID() capsule.NSID { return n.id }

// UUID identifies the namespace across subsystems and restarts.
func (n *Namespace) UUID() uuid.UUID { return n.uuid }

// Info describes the store, with the size that hosts are told.
func (n *Namespace) Info() backend.Info {
	info := n.volume.Info
	info.Size = int64(n.volume.Bytes())
	return info
}

// newNamespace completes what identifies a namespace.
func newNamespace(s *Subsystem, c NamespaceConfig) *Namespace {
	if c.UUID == uuid.Nil {
		c.UUID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s\x00%d\x00%s", s.nqn, c.NSID, c.Name))
	}
	if c.NGUID == [16]byte{} {
		c.NGUID = c.UUID
	}
	n := &Namespace{subsystem: s, id: c.NSID, uuid: c.UUID, nguid: c.NGUID, eui64: c.EUI64}
	n.readOnly.Store(c.ReadOnly)
	n.group.Store(uint32(c.Group))
	return n
}

// namespaceTable is a subsystem's namespaces at one time, by NSID; index 0 is
// empty. It does not change.
type namespaceTable []*Namespace

// get returns the active namespace, or nil.
func (t namespaceTable) get(id capsule.NSID) *Namespace {
	if uint64(id) >= uint64(len(t)) {
		return nil
	}
	return t[id]
}

// with returns a table with the namespace at id replaced; nil removes it.
func (t namespaceTable) with(id capsule.NSID, n *Namespace) namespaceTable {
	out := make(namespaceTable, max(len(t), int(id)+1))
	copy(out, t)
	out[id] = n
	return out
}

// free is the lowest identifier without a namespace.
func (t namespaceTable) free() capsule.NSID {
	for id := capsule.NSID(1); ; id++ {
		if t.get(id) == nil {
			return id
		}
	}
}
