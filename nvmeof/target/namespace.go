package target

import (
	"fmt"
	"math/bits"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// maxNamespaces is NN and MNAN: the highest namespace identifier.
const maxNamespaces = 1024

// NamespaceConfig describes a namespace. A zero field takes the default.
type NamespaceConfig struct {
	Store backend.Store // required; stays the caller's to close
	NSID  capsule.NSID  // 1 to 1024; default: the lowest free one
	// UUID identifies the namespace for good; default: derived from the
	// subsystem's NQN, the NSID and Name, so that it survives a restart.
	UUID uuid.UUID
	Name string // what is exported, for logs: a path, say
}

// A Namespace is one export of a subsystem. It does not change, except in the
// backend queues of its shards.
type Namespace struct {
	id     capsule.NSID
	name   string
	uuid   uuid.UUID
	store  backend.Store
	info   backend.Info
	shift  uint                       // log2 of the block size
	blocks uint64                     // size
	lanes  []lane                     // by shard
	region rdmatransport.MemoryRegion // of a store that can be viewed, or nil
	target *Target
}

// ID is the namespace's identifier.
func (n *Namespace) ID() capsule.NSID { return n.id }

// UUID identifies the namespace across subsystems and restarts.
func (n *Namespace) UUID() uuid.UUID { return n.uuid }

// Info describes the store.
func (n *Namespace) Info() backend.Info { return n.info }

func newNamespace(subsystem string, c NamespaceConfig) (*Namespace, error) {
	info := c.Store.Info()
	if info.BlockSize != 512 && info.BlockSize != 4096 {
		return nil, fmt.Errorf("namespace %d (%s): block size %d: must be 512 or 4096", c.NSID, c.Name, info.BlockSize)
	}
	if info.Size < int64(info.BlockSize) {
		return nil, fmt.Errorf("namespace %d (%s): %d bytes: must hold at least one block", c.NSID, c.Name, info.Size)
	}
	if c.UUID == uuid.Nil {
		c.UUID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s\x00%d\x00%s", subsystem, c.NSID, c.Name))
	}
	shift := uint(bits.TrailingZeros(uint(info.BlockSize)))
	return &Namespace{
		id: c.NSID, name: c.Name, uuid: c.UUID, store: c.Store, info: info,
		shift: shift, blocks: uint64(info.Size) >> shift,
	}, nil
}

// inRange reports whether blocks from slba exist (BAD-INPUT of SLBA and NLB).
func (n *Namespace) inRange(slba capsule.LBA, blocks uint32) bool {
	return capsule.InRange(uint64(slba), uint64(blocks), n.blocks)
}

// used is NUSE: how many blocks have storage.
func (n *Namespace) used() uint64 {
	b, err := n.store.Allocated()
	if err != nil || b < 0 {
		return n.blocks
	}
	return min((uint64(b)+1<<n.shift-1)>>n.shift, n.blocks)
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
