package storage

import "sync/atomic"

// A Sight has which namespaces the host of a controller has identified. A host's command
// is meant for the namespace that it has identified, and must not reach another that has
// replaced it. The controller's shard writes it; all shards read it, by one comparison
// for a command.
type Sight struct {
	Born uint32        // the generation of the subsystem when the controller began; constant
	Asks atomic.Uint32 // Identify commands about namespaces

	// Presumed means that the host identifies no namespace when it connects.
	Presumed atomic.Bool

	seen [MaxNamespace + 1]atomic.Uint32 // generations, by NSID
}

// Seen reports whether the host has identified the present namespace at its NSID.
func (s *Sight) Seen(n *Namespace) bool { return s.seen[n.ID].Load() == n.Generation }

// Replaced reports whether the host may have identified an earlier namespace at the NSID.
func (s *Sight) Replaced(n *Namespace) bool { return n.Successor && n.Generation > s.Born }

// Knows reports whether a command of the host is meant for this namespace.
func (s *Sight) Knows(n *Namespace) bool {
	return s.Seen(n) || s.Presumed.Load() && !s.Replaced(n)
}

// See notes that the host has identified the namespace.
func (s *Sight) See(n *Namespace) {
	at := &s.seen[n.ID]
	for old := at.Load(); old < n.Generation && !at.CompareAndSwap(old, n.Generation); old = at.Load() {
	}
}
