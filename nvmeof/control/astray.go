package control

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// astray are namespaces whose files for reservations are those of others, as where a document has what
// two export change places and not their reservations. Who is named there waits, and so does whose
// reservations they are: without them others may write what they protect.
type astray map[namespaceKey]*config.Namespace

// misplaced finds them in what a start, or the check of a document, meets.
func misplaced(r *reacher, all map[namespaceKey]*config.Namespace) astray {
	found := astray{}
	for at, n := range all {
		if n.Reservations != "" && r.ask(n.Reservations, func() error { return known("").checkReservations(at.nqn, n) }) != nil {
			found[at] = n
		}
	}
	return found
}

// namespacesOf are those of a document.
func namespacesOf(doc *config.Document) map[namespaceKey]*config.Namespace {
	all := map[namespaceKey]*config.Namespace{}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			all[namespaceKey{s.NQN, n.NSID}] = n
		}
	}
	return all
}

// heldFor is why a namespace may not be used, whose reservations one of them has; nil where its own file
// is another's, which says so itself.
func (a astray) heldFor(r *reacher, nqn nvmeof.NQN, n *config.Namespace) error {
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
		if err == nil && held { // of one that does not answer nothing is known
			return fmt.Errorf("what hosts have reserved of it is in %s, which %s names: name that file here, or remove it if no host relies on a reservation",
				x.Reservations, namespaceName(at))
		}
	}
	return nil
}
