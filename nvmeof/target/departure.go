package target

import (
	"maps"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A departure is a namespace that a change has removed, and may bring back.
type departure struct {
	namespace *storage.Namespace
	volume    *storage.Volume // the last one of its store
	change    uint64          // its mark
}

// departures are those of the change under way.
type departures map[storage.Identity]departure

// note adds a namespace, if a change is under way.
func (d departures) note(n *storage.Namespace, u *unsettled) {
	maps.DeleteFunc(d, func(_ storage.Identity, of departure) bool { return !u.within(of.change) })
	for i, of := range d { // a change that is undone has had the store elsewhere meanwhile
		if of.volume.SameStore(n.Volume) {
			of.volume = n.Volume
			d[i] = of
		}
	}
	if mark := u.mark(); u.within(mark) {
		d[n.Identity] = departure{n, n.Volume, mark}
	}
}

// find is the namespace which the change under way has removed, and that one of this identity brings
// back: it is the same to hosts, or the same under another NSID, or else has the same store, or nil for
// none. Nothing tells hosts that what they have set there has ended, and who had to leave the data alone
// finds them under another number. The zero value is none.
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

// former are the reservations of a namespace that is away, if it is the same to hosts, or of the departure.
func (of departure) former(away, now *storage.Namespace) *storage.Reservations {
	switch {
	case away != nil && away.Identity == now.Identity:
		return away.Former
	case of.namespace != nil:
		return of.volume.Reservations
	}
	return nil
}
