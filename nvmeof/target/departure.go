package target

import (
	"maps"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A departure is a namespace that a change has removed and may add again.
type departure struct {
	namespace *storage.Namespace
	volume    *storage.Volume // the most recent one of its store
	change    uint64          // mark of the change
}

// departures are the namespaces that the change under way has removed.
type departures map[storage.Identity]departure

// note adds a namespace, if a change is under way.
func (d departures) note(n *storage.Namespace, u *unsettled) {
	maps.DeleteFunc(d, func(_ storage.Identity, of departure) bool { return !u.within(of.change) })
	for i, of := range d { // when a change is undone, another namespace has had the store meanwhile
		if of.volume.SameStore(n.Volume) {
			of.volume = n.Volume
			d[i] = of
		}
	}
	if mark := u.mark(); u.within(mark) {
		d[n.Identity] = departure{n, n.Volume, mark}
	}
}

// find returns the namespace that the change under way has removed and that a namespace with identity now
// replaces: one with the same identity, or with the same UUID under another NSID, or else with the same store.
// Hosts are not told that their settings for such a namespace have ended, and a host that a reservation or write
// protection keeps from the data would otherwise reach it under another NSID. The zero value means none.
func (d departures) find(now storage.Identity, store backend.Store, u *unsettled) (best departure) {
	if of, there := d[now]; there && u.within(of.change) {
		return of
	}
	for i, of := range d {
		switch {
		case !u.within(of.change):
		case i.UUID == now.UUID:
			return of
		case of.volume.Has(store) && (best.namespace == nil || of.namespace.Protection() != capsule.WriteProtectNone):
			best = of
		}
	}
	return best
}

// former returns the reservations of a namespace that is away, if now is the same to hosts, or those of the
// departure.
func (of departure) former(away, now *storage.Namespace) *storage.Reservations {
	switch {
	case away != nil && away.Identity == now.Identity:
		return away.Former
	case of.namespace != nil:
		return of.volume.Reservations
	}
	return nil
}
