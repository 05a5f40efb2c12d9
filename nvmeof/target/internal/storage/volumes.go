package storage

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// MaxShards is how many shards all devices of a target may have together.
const MaxShards = 256

// An Index is the index of a shard among all shards of a target. The indexes of a removed device are reused for
// devices that are added later.
type Index uint8

// A Shard is a shard that has lanes to volumes.
type Shard struct {
	Index Index
	Shard *shard.Shard
	// Stalled is called in the shard, repeatedly, while the store of a lane completes none of its operations.
	Stalled func(*Lane)
	lanes   lanes
}

// A Site is a device: its shards, and the protection domain of their memory.
type Site struct {
	Domain rdmatransport.Domain
	Pins   bool // see [rdmatransport.Attrs]
	shards []*Shard
}

// Volumes has the open volumes and the shards that have lanes to them.
type Volumes struct {
	depth int // operations of one shard in flight to one volume
	log   *peerlog.Log
	began time.Time // when Init was called

	// mu protects the fields below. It is held while lanes are opened and closed, which waits for shards, but not
	// while reservations are.
	mu      sync.Mutex
	claims  map[*claim]struct{}       // claims under way
	byStore map[backend.Store]*Volume // of comparable stores
	all     map[*Volume]struct{}
	sites   []*Site
	shards  [MaxShards]*Shard
}

// Init initializes an empty set.
func (t *Volumes) Init(depth int, log *peerlog.Log) {
	t.depth, t.log, t.began = depth, log, time.Now()
	t.byStore, t.all, t.claims = make(map[backend.Store]*Volume), make(map[*Volume]struct{}), make(map[*claim]struct{})
}

// age returns the age of the set at a time, at least a nanosecond. It is a clock that does not jump when the
// machine's clock is set.
func (t *Volumes) age(now time.Time) int64 { return max(1, int64(now.Sub(t.began))) }

// AddShard adds a shard, which has not started yet, to a device, at the lowest free index. It must be followed by
// AddSite or RemoveSite.
func (t *Volumes) AddShard(d *Site, s *shard.Shard) (*Shard, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.shards[:], nil)
	if i < 0 {
		return nil, fmt.Errorf("target: its devices have %d shards, the most that a target can have: configure fewer for each", MaxShards)
	}
	p := &Shard{Index: Index(i), Shard: s}
	t.shards[i] = p
	d.shards = append(d.shards, p)
	s.AddPoller(&p.lanes)
	return p, nil
}

// AddSite gives every volume, including those opened later, lanes in a device's shards.
func (t *Volumes) AddSite(d *Site) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sites = append(t.sites, d)
	for v := range t.all {
		if err := v.openOn(d); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", v.Name, err), t.leave(d))
		}
		for n := range v.users {
			n.open(v, d.shards)
		}
	}
	return nil
}

// RemoveSite closes the lanes in a device's shards, even if AddSite has failed, and then removes the shards.
func (t *Volumes) RemoveSite(d *Site) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.leave(d)
	for _, p := range d.shards {
		t.shards[p.Index] = nil
	}
	return err
}

// leave closes the lanes in a device's shards. Called with mu held.
func (t *Volumes) leave(d *Site) error {
	var errs []error
	for v := range t.all {
		errs = append(errs, v.closeOn(d))
	}
	t.sites = slices.DeleteFunc(t.sites, func(o *Site) bool { return o == d })
	return errors.Join(errs...)
}

// present returns the shards of all devices.
func (t *Volumes) present() (all []*Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.sites {
		all = append(all, d.shards...)
	}
	return all
}

// All returns the open volumes.
func (t *Volumes) All() []*Volume {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.all))
}

// Acquire gives a namespace the volume of its store. The first namespace of a store opens it, with its
// reservations, whose owner it becomes, and which include those from before the namespace went away. A store that
// hangs does not delay others.
func (t *Volumes) Acquire(store backend.Store, name string, reservations ReservationStore, owner reservation.Owner, n *Namespace) error {
	opened, err := t.acquire(store, name, reservations, owner, n)
	if opened {
		n.Volume.count(store.Allocated()) // without the mutex, since it may take as long as a file system
	}
	return err
}

// acquire is Acquire without counting what is allocated. It reports whether it has opened the volume.
func (t *Volumes) acquire(store backend.Store, name string, reservations ReservationStore, owner reservation.Owner, n *Namespace) (opened bool, err error) {
	c, err := t.joinOrClaim(store, reservations, n)
	if c == nil || err != nil {
		return false, err
	}
	defer t.unclaim(c)
	v, err := newVolume(t, store, name)
	if err != nil {
		return false, err
	}
	if v.Reservations, err = newReservations(reservations, owner, n.Former); err != nil {
		return false, err
	}
	if err := t.add(v, n); err != nil {
		return false, errors.Join(err, v.Reservations.Close())
	}
	return true, nil
}

// A claim is the right to open or close the volume of a store with its reservations, which may take as long as a
// file system. Other uses of the same store or reservations wait, and nothing else.
type claim struct {
	store        backend.Store
	reservations ReservationStore
	ended        chan struct{}
}

// joinOrClaim makes the namespace a user of the volume of its store or, if there is none, claims the store.
func (t *Volumes) joinOrClaim(store backend.Store, reservations ReservationStore, n *Namespace) (*claim, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other := t.claimed(store, reservations); other != nil; other = t.claimed(store, reservations) {
		t.mu.Unlock()
		<-other.ended
		t.mu.Lock()
	}
	if joined, err := t.join(store, reservations, n); joined || err != nil {
		return nil, err
	}
	return t.claim(store, reservations), nil
}

// claimed returns a claim of the store or the reservations, or nil. Called with mu held.
func (t *Volumes) claimed(store backend.Store, reservations ReservationStore) *claim {
	for c := range t.claims {
		if same(c.store, store) || same(c.reservations, reservations) {
			return c
		}
	}
	return nil
}

// claim claims a store with its reservations. Called with mu held; must be followed by unclaim.
func (t *Volumes) claim(store backend.Store, reservations ReservationStore) *claim {
	c := &claim{store, reservations, make(chan struct{})}
	t.claims[c] = struct{}{}
	return c
}

func (t *Volumes) unclaim(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.claims, c)
	close(c.ended)
}

// add adds a volume, with its lanes and its first user.
func (t *Volumes) add(v *Volume, n *Namespace) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := v.open(); err != nil {
		return err
	}
	if reflect.TypeOf(v.store).Comparable() {
		t.byStore[v.store] = v
	}
	t.all[v] = struct{}{}
	v.use(n)
	return nil
}

// join makes the namespace a user of the volume of its store, and reports whether there is one. If there is none,
// it returns an error if another volume uses the reservations. Called with mu held.
func (t *Volumes) join(store backend.Store, reservations ReservationStore, n *Namespace) (joined bool, err error) {
	if reflect.TypeOf(store).Comparable() && t.byStore[store] != nil {
		if t.byStore[store].leaving {
			return false, errors.New("its store is still being closed, since earlier commands have not completed: try again")
		}
		t.byStore[store].use(n)
		return true, nil
	}
	for v := range t.all {
		if same(v.Reservations.store, reservations) {
			return false, fmt.Errorf("its reservations would be saved to the file of those of %s: name another file", v.Name)
		}
	}
	return false, nil
}

// use makes the namespace a user of the volume, even if there is no device yet. Called with the mutex of Volumes
// held.
func (v *Volume) use(n *Namespace) {
	v.users[n] = struct{}{}
	var shards []*Shard
	for _, d := range v.volumes.sites {
		shards = append(shards, d.shards...)
	}
	n.open(v, shards)
}

// Release ends a namespace's use of its volume, and closes the volume if that was the last use. If ending is not
// nil, it is called before, while the volume still has its lanes. Release waits for the store without holding the
// mutex, so that a store that hangs does not delay other volumes.
func (t *Volumes) Release(n *Namespace, ending func(*Volume)) error {
	v := n.Volume
	if !t.drop(v, n) {
		return nil
	}
	if ending != nil {
		ending(v)
	}
	quiet := t.retire(v)
	v.querying.Lock()
	v.closed = true
	v.querying.Unlock()
	for _, c := range quiet {
		<-c
	}
	v.Reservations.End()
	c, err := t.remove(v)
	defer t.unclaim(c)
	return errors.Join(err, v.Reservations.Close())
}

// remove closes the lanes of a volume that no namespace uses, and claims its store.
func (t *Volumes) remove(v *Volume) (*claim, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if reflect.TypeOf(v.store).Comparable() {
		delete(t.byStore, v.store)
	}
	delete(t.all, v)
	return t.claim(v.store, v.Reservations.store), v.closeLanes()
}

// drop removes a namespace, and reports whether it was the last. If so, no other namespace can get the volume any
// more.
func (t *Volumes) drop(v *Volume, n *Namespace) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(v.users, n)
	v.leaving = len(v.users) == 0
	return v.leaving
}

// retire closes the lanes of a volume to new operations.
func (t *Volumes) retire(v *Volume) (quiet []<-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.sites {
		quiet = append(quiet, v.retireOn(d)...)
	}
	return quiet
}

// Quiesce closes the lanes in a device's shards to new operations, and waits for the operations in them, without
// holding the mutex. It must be followed by RemoveSite.
func (t *Volumes) Quiesce(d *Site) {
	var quiet []<-chan struct{}
	t.mu.Lock()
	for v := range t.all {
		quiet = append(quiet, v.retireOn(d)...)
	}
	t.mu.Unlock()
	for _, c := range quiet {
		<-c
	}
}

// Unfinished lists, in order, the names of volumes whose stores have operations of a device's shards. If d is nil,
// it lists those with operations of any shard, or with a query under way.
func (t *Volumes) Unfinished(d *Site) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sites := []*Site{d}
	if d == nil {
		sites = t.sites
	}
	for v := range t.all {
		if d == nil && v.asked.Load() != 0 || v.operations(sites) > 0 {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

// operations returns how many operations of the devices' shards the volume has. Called with the mutex of Volumes
// held.
func (v *Volume) operations(sites []*Site) (n int) {
	for _, d := range sites {
		for _, p := range d.shards {
			if l := v.lanes[p.Index].Load(); l != nil && l.open {
				_ = p.Shard.Call(func() { n += l.users }) // none if the shard has ended
			}
		}
	}
	return n
}

// Has reports whether the volume is that of a store, which may be nil.
func (v *Volume) Has(store backend.Store) bool { return same(v.store, store) }

// SameStore reports whether both are volumes of the same store, of which one is closed by now.
func (v *Volume) SameStore(o *Volume) bool { return same(v.store, o.store) }

// same reports whether a and b are equal. It is false if they are not comparable.
func same(a, b any) bool {
	t := reflect.TypeOf(a)
	return t != nil && t == reflect.TypeOf(b) && t.Comparable() && a == b
}
