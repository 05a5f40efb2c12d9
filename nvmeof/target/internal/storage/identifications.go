package storage

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Identifications records which namespaces the host of a controller has identified, by Identify commands. A host's
// command is meant for the namespace that it has identified, and must not reach another one that has replaced
// that. The controller's shard writes it; all shards read it, with one comparison per command.
type Identifications struct {
	Born uint32        // the generation of the subsystem when the controller was created; constant
	Asks atomic.Uint32 // number of Identify commands for namespaces

	// Presumed means that the host does not identify namespaces when it connects.
	Presumed atomic.Bool

	generations [MaxNamespace + 1]atomic.Uint32 // of the namespaces that the host has identified, by NSID
}

// Identified reports whether the host has identified the current namespace at its NSID.
func (i *Identifications) Identified(n *Namespace) bool {
	return i.generations[n.ID].Load() == n.Generation
}

// Replaced reports whether the host may have identified an earlier namespace at the NSID.
func (i *Identifications) Replaced(n *Namespace) bool { return n.Successor && n.Generation > i.Born }

// Knows reports whether a command of the host is meant for this namespace.
func (i *Identifications) Knows(n *Namespace) bool {
	return i.Identified(n) || i.Presumed.Load() && !i.Replaced(n)
}

// SetIdentified records that the host has identified the namespace.
func (i *Identifications) SetIdentified(n *Namespace) {
	at := &i.generations[n.ID]
	for old := at.Load(); old < n.Generation && !at.CompareAndSwap(old, n.Generation); old = at.Load() {
	}
}

// Export yields the namespaces that the host has identified, with their generations.
func (i *Identifications) Export(yield func(capsule.NSID, uint32) bool) {
	for id := range i.generations {
		if g := i.generations[id].Load(); g != 0 && !yield(capsule.NSID(id), g) {
			return
		}
	}
}

// Restore records that the host has identified a namespace of that generation.
func (i *Identifications) Restore(id capsule.NSID, generation uint32) {
	if uint64(id) < uint64(len(i.generations)) {
		i.generations[id].Store(generation)
	}
}
