package volume

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation/keeper"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// MaxPlaces is how many shards all devices of a target may have together.
const MaxPlaces = 256

// A Index is a shard's place among all shards of a target. That of a device
// that was removed goes to one that is added later.
type Index uint8

// A Place is one shard on which volumes have lanes.
type Place struct {
	Index Index
	Shard *shard.Shard
	lanes lanes
}

// A Site is a device: its shards, and what their memory is registered in.
type Site struct {
	Domain rdmatransport.Domain
	Pins   bool // see [rdmatransport.Attrs]
	places []*Place
}

// A Holder is who has a volume. All is called with the set's mutex held.
type Holder interface {
	Opened(v *Volume, places []*Place) // v is the holder's, and has lanes on these shards, if any
	Resized()                          // the volume's size is another
	Examined()                         // its health is
}

// A Set is the volumes that are open and the shards that they have lanes on. Both
// belong to its mutex, which is held while volumes are opened and closed: that waits for
// shards.
type Set struct {
	sync.Mutex
	depth int // operations of one shard in flight to one volume
	log   *zap.Logger
	warn  func(string, ...zap.Field) // logs what may come often

	byStore map[backend.Store]*Volume // those whose stores can be compared
	all     map[*Volume]struct{}
	sites   []*Site
	places  [MaxPlaces]*Place
}

// Init readies an empty set.
func (t *Set) Init(depth int, log *zap.Logger, warn func(string, ...zap.Field)) {
	t.depth, t.log, t.warn = depth, log, warn
	t.byStore, t.all = make(map[backend.Store]*Volume), make(map[*Volume]struct{})
}

// AddSite adds a device without shards. Called with the mutex held, as are AddPlace,
// OpenOn and RemoveSite.
func (t *Set) AddSite(d *Site) { t.sites = append(t.sites, d) }

// AddPlace adds a shard, which has not started yet, to a device, at the lowest index that is free.
func (t *Set) AddPlace(d *Site, s *shard.Shard) (*Place, error) {
	i := slices.Index(t.places[:], nil)
	if i < 0 {
		return nil, fmt.Errorf("target: its devices have %d shards, which is all it can have: take fewer for each", MaxPlaces)
	}
	p := &Place{Index: Index(i), Shard: s}
	t.places[i] = p
	d.places = append(d.places, p)
	s.AddPoller(&p.lanes)
	return p, nil
}

// OpenOn gives every volume lanes on a device's shards.
func (t *Set) OpenOn(d *Site) error {
	for v := range t.all {
		if err := v.openOn(d); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		for u := range v.users {
			u.Opened(v, d.places)
		}
	}
	return nil
}

// RemoveSite takes the lanes on a device's shards back, however many there are, and then
// the places.
func (t *Set) RemoveSite(d *Site) error {
	var errs []error
	for v := range t.all {
		errs = append(errs, v.closeOn(d))
	}
	for _, p := range d.places {
		t.places[p.Index] = nil
	}
	t.sites = slices.DeleteFunc(t.sites, func(o *Site) bool { return o == d })
	return errors.Join(errs...)
}

// Places calls yield with the shards there are. Called with the mutex held.
func (t *Set) Places(yield func(*Place) bool) {
	for _, p := range t.places {
		if p != nil && !yield(p) {
			return
		}
	}
}

// All are the volumes that are open.
func (t *Set) All() []*Volume {
	t.Lock()
	defer t.Unlock()
	return slices.Collect(maps.Keys(t.all))
}

// Acquire gives a holder the volume of its store, which the first one opens. The store
// of reservations counts then.
func (t *Set) Acquire(store backend.Store, name string, reservations keeper.Store, u Holder) error {
	t.Lock()
	defer t.Unlock()
	shareable := reflect.TypeOf(store).Comparable()
	if shareable && t.byStore[store] != nil {
		if t.byStore[store].leaving {
			return errors.New("its store is being closed, and has not finished commands of before: try again")
		}
		t.byStore[store].use(u)
		return nil
	}
	v, err := newVolume(t, store, name)
	if err != nil {
		return err
	}
	if v.Reservations, err = t.openReservations(reservations); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if shareable {
		t.byStore[store] = v
	}
	t.all[v] = struct{}{}
	v.use(u)
	return nil
}

// use lets a holder have the volume, also where there is no device yet. Called with the
// set's mutex held.
func (v *Volume) use(u Holder) {
	v.users[u] = struct{}{}
	var places []*Place
	for _, d := range v.set.sites {
		places = append(places, d.places...)
	}
	u.Opened(v, places)
}

// Release ends a holder's use of its volume, which the last one closes. It waits for the
// store, but not with the mutex held: a store that hangs is no matter of the others.
func (t *Set) Release(v *Volume, u Holder) error {
	quiet, last := t.drop(v, u)
	if !last {
		return nil
	}
	v.asking.Lock()
	v.closed = true
	v.asking.Unlock()
	for _, c := range quiet {
		<-c
	}
	t.Lock()
	defer t.Unlock()
	if reflect.TypeOf(v.store).Comparable() {
		delete(t.byStore, v.store)
	}
	delete(t.all, v)
	return v.close()
}

// drop takes a holder out. With the last one the lanes retire.
func (t *Set) drop(v *Volume, u Holder) (quiet []<-chan struct{}, last bool) {
	t.Lock()
	defer t.Unlock()
	delete(v.users, u)
	if len(v.users) > 0 {
		return nil, false
	}
	v.leaving = true
	for _, d := range t.sites {
		quiet = append(quiet, v.retireOn(d)...)
	}
	return quiet, true
}

// Quiesce keeps what is new from the lanes on a device's shards, and waits for what is
// there, without the mutex held. RemoveSite follows.
func (t *Set) Quiesce(d *Site) {
	var quiet []<-chan struct{}
	t.Lock()
	for v := range t.all {
		quiet = append(quiet, v.retireOn(d)...)
	}
	t.Unlock()
	for _, c := range quiet {
		<-c
	}
}

// Unfinished has the names of the volumes whose stores have operations of a device's
// shards, in order.
func (t *Set) Unfinished(d *Site) (names []string) {
	t.Lock()
	defer t.Unlock()
	for v := range t.all {
		users := 0
		for _, p := range d.places {
			if l := v.Lanes[p.Index].Load(); l != nil && l.open {
				_ = p.Shard.Call(func() { users += l.users }) // of a shard that has ended: none
			}
		}
		if users > 0 {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

// openReservations are those of a volume that is being opened. Called with the mutex
// held.
func (t *Set) openReservations(store keeper.Store) (*keeper.Keeper, error) {
	for v := range t.all {
		if store != nil && same(v.Reservations.Store(), store) {
			return nil, fmt.Errorf("its reservations would be kept where those of %s are: name another place", v.Name)
		}
	}
	return keeper.New(store)
}

// same compares what implements an interface, where that can be compared.
func same(a, b any) bool {
	t := reflect.TypeOf(a)
	return t != nil && t == reflect.TypeOf(b) && t.Comparable() && a == b
}
