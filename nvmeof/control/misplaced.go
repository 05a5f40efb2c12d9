package control

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// misplacedRecords are the namespaces whose reservation file belongs to another namespace. That occurs if the
// exports of two namespaces are exchanged in a document, but not their reservations. Both namespaces wait: without
// its reservations, other hosts could write to what they protect.
type misplacedRecords map[namespaceKey]*config.Namespace

// findMisplaced returns such namespaces at a start, or when a document is checked.
func findMisplaced(r *reacher, all map[namespaceKey]*config.Namespace) misplacedRecords {
	found := misplacedRecords{}
	for at, n := range all {
		if n.Reservations != "" && r.ask(n.Reservations, func() error { return known("").checkReservations(at.nqn, n) }) != nil {
			found[at] = n
		}
	}
	return found
}

// namespacesOf returns the namespaces of a document.
func namespacesOf(doc *config.Document) map[namespaceKey]*config.Namespace {
	all := map[namespaceKey]*config.Namespace{}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			all[namespaceKey{s.NQN, n.NSID}] = n
		}
	}
	return all
}

// reservedElsewhere returns an error if one of a's files has the reservations of namespace n. It returns nil if n's
// own file belongs to another one, which is an error of its own.
func (a misplacedRecords) reservedElsewhere(r *reacher, nqn nvmeof.NQN, n *config.Namespace) error {
	if len(a) == 0 || n.Reservations != "" && r.ask(n.Reservations, func() error { return known("").checkReservations(nqn, n) }) != nil {
		return nil
	}
	for at, x := range a {
		if x.Reservations == n.Reservations || x.Path() != "" && x.Path() == n.Path() {
			continue
		}
		held := false
		err := r.ask(x.Reservations, func() error {
			held = known("").checkReservations(at.nqn, x) != nil && target.ReservationFile(x.Reservations).HoldsFor(nqn, ownerConfig(n))
			return nil
		})
		if err == nil && held { // nothing is known of a file that does not answer
			return fmt.Errorf("its reservations are in %s, which %s names: name that file here, or remove it if no host relies on a reservation",
				x.Reservations, namespaceName(at))
		}
	}
	return nil
}
