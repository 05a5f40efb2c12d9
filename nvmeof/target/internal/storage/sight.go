package storage

import "sync/atomic"

// A Sight is which namespaces the host of a controller has identified. What a host sends
// is meant for the one that it has identified, and must reach no other that has taken its
// place. The controller's shard writes it; all read it, by one comparison for a command.
type Sight struct {
	Born uint32        // the generation of the subsystem when the controller began; constant
	Asks atomic.Uint32 // Identify commands about namespaces

	// Presumed says that the host asks about nothing when it connects.
	Presumed atomic.Bool

	seen [MaxNamespace + 1]atomic.Uint32 // generations, by NSID
}

// Seen reports whether the host knows what is at the namespace's NSID now.
func (s *Sight) Seen(n *Namespace) bool { return s.seen[n.ID].Load() == n.Generation }

// Replaced reports whether the namespace came to its NSID while the host may have known
// another there.
func (s *Sight) Replaced(n *Namespace) bool { return n.Successor && n.Generation > s.Born }

// Knows reports whether the host knows the namespace that it means.
func (s *Sight) Knows(n *Namespace) bool {
	return s.Seen(n) || s.Presumed.Load() && !s.Replaced(n)
}

// See notes that the host has identified the namespace.
func (s *Sight) See(n *Namespace) {
	at := &s.seen[n.ID]
	for old := at.Load(); old < n.Generation && !at.CompareAndSwap(old, n.Generation); old = at.Load() {
	}
}
