package target

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation/keeper"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A volume is a store as the target has it open: once, however many namespaces
// of whatever subsystems export it. It does not change, except for its size and
// for the backend queues of its shards.
type volume struct {
	target *Target
	name   string // what is exported, for logs
	store  backend.Store
	info   backend.Info                     // when it was opened; the size is in blocks
	shift  uint                             // log2 of the block size
	size   atomic.Uint64                    // in blocks; see revalidate
	lanes  [maxWorkers]atomic.Pointer[lane] // by shard; each is there before its shard has queues
	users  map[*Namespace]struct{}          // under Target.opening
	blind  bool                             // the store does not know its size; under Target.opening

	// regions are the memory of a store that can be viewed; under Target.opening.
	regions map[*Device]rdmatransport.MemoryRegion

	health atomic.Pointer[health.State] // written under asking
	asking sync.Mutex                   // held while the store is asked for it, which may take seconds
	asked  time.Time                    // under asking: when its drive was asked last
	closed bool                         // under asking

	reservations *keeper.Keeper
}

// openVolumes are the volumes that are open.
type openVolumes struct {
	byStore map[backend.Store]*volume // those whose stores can be compared
	all     map[*volume]struct{}
}

// newVolume judges a store.
func newVolume(t *Target, store backend.Store, name string) (*volume, error) {
	info := store.Info()
	if info.BlockSize != 512 && info.BlockSize != 4096 {
		return nil, fmt.Errorf("block size %d: must be 512 or 4096", info.BlockSize)
	}
	if info.Size < int64(info.BlockSize) {
		return nil, fmt.Errorf("%d bytes: must hold at least one block", info.Size)
	}
	v := &volume{
		target: t, name: name, store: store, info: info,
		shift: uint(bits.TrailingZeros(uint(info.BlockSize))), users: make(map[*Namespace]struct{}),
		regions: make(map[*Device]rdmatransport.MemoryRegion),
	}
	v.size.Store(uint64(info.Size) >> v.shift)
	v.health.Store(health.Sound())
	return v, nil
}

// acquire gives a namespace the volume of its store, which the first one opens.
func (t *Target) acquire(c *NamespaceConfig, n *Namespace) error {
	store := c.Store
	t.opening.Lock()
	defer t.opening.Unlock()
	shareable := reflect.TypeOf(store).Comparable()
	if shareable && t.volumes.byStore[store] != nil {
		t.volumes.byStore[store].use(n)
		return nil
	}
	v, err := newVolume(t, store, c.Name)
	if err != nil {
		return err
	}
	if v.reservations, err = t.openReservations(c.Reservations); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if shareable {
		t.volumes.byStore[store] = v
	}
	t.volumes.all[v] = struct{}{}
	v.use(n)
	return nil
}

// use lets a namespace have the volume. Called with opening held.
func (v *volume) use(n *Namespace) {
	v.users[n], n.volume = struct{}{}, v
	for _, d := range v.devices() {
		n.openGates(d)
	}
}

// devices are those whose shards the volume has lanes on. Called with opening held.
func (v *volume) devices() (out []*Device) {
	for _, w := range v.target.workers {
		if w != nil && !slices.Contains(out, w.device) {
			out = append(out, w.device)
		}
	}
	return out
}

// releaseVolume ends a namespace's use of its volume, which the last one closes.
func (t *Target) releaseVolume(n *Namespace) error {
	t.opening.Lock()
	defer t.opening.Unlock()
	v := n.volume
	delete(v.users, n)
	if len(v.users) > 0 {
		return nil
	}
	if reflect.TypeOf(v.store).Comparable() {
		delete(t.volumes.byStore, v.store)
	}
	delete(t.volumes.all, v)
	return v.close()
}

// viewer is the store as one from whose memory a device itself sends, or nil.
func (v *volume) viewer(d *Device) backend.Viewer {
	if d.attrs.Pins && v.info.Deallocate {
		return nil // the device would go on with pages that the store has given back
	}
	viewer, _ := v.store.(backend.Viewer)
	return viewer
}

// open gives the volume a lane on every shard.
func (v *volume) open() error {
	for _, d := range v.devices() {
		if err := v.openOn(d); err != nil {
			return errors.Join(err, v.close())
		}
	}
	return nil
}

// openOn gives the volume lanes on a device's shards. If it fails closeOn takes back
// what there is. Called with Target.opening held.
func (v *volume) openOn(d *Device) error {
	viewer := v.viewer(d)
	if viewer != nil {
		region, err := d.domain.Register(viewer.Memory(), 0)
		if err != nil {
			return fmt.Errorf("registering its memory: %w", err)
		}
		v.regions[d] = region
	}
	for _, w := range d.workers {
		if err := v.openLane(w, viewer); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) openLane(w *worker, viewer backend.Viewer) error {
	q, watch, err := v.openQueue(w.shard, v.target.cfg.BackendDepth)
	if err != nil {
		return err
	}
	l := v.lanes[w.index].Load()
	if l == nil {
		l = new(lane)
		v.lanes[w.index].Store(l)
	}
	l.init(v, w, q, watch)
	if l.viewer = viewer; viewer != nil {
		l.memory, l.key = viewer.Memory(), v.regions[w.device].LKey()
	}
	if err := w.shard.Call(l.attach); err != nil {
		return errors.Join(err, q.Close())
	}
	l.open = true
	return nil
}

// openQueue opens a queue of the store for a shard, whose sleep its descriptor
// ends. Where either side has none of that the store notifies, by way of another
// goroutine.
func (v *volume) openQueue(s *shard.Shard, depth int) (backend.Queue, backend.Watchable, error) {
	q, err := v.store.NewQueue(depth, s.Wake)
	if err != nil {
		return nil, nil, err
	}
	w, ok := q.(backend.Watchable)
	if !ok || s.Watch(w.Descriptor()) == nil {
		if m, ok := q.(backend.MemoryUser); ok {
			m.UseMemory(s.Arena().Bytes(), shard.MaxBuffer)
		}
		return q, w, nil
	}
	// The descriptor is responsible now, and nobody looks at it.
	if err := q.Close(); err != nil {
		return nil, nil, err
	}
	q, err = v.store.NewQueue(depth, s.Wake)
	return q, nil, err
}

func (l *lane) attach() {
	if b, ok := l.queue.(backend.ThreadBound); ok && b.ThreadBound() {
		l.shard.BindThread()
	}
	l.shard.Attach(&l.slot, l)
	l.attached = true
}

// close waits until no command uses the volume any more, and gives its lanes
// back. No new one can have it by then.
func (v *volume) close() error {
	v.asking.Lock()
	v.closed = true
	v.asking.Unlock()
	var errs []error
	for _, d := range v.devices() {
		errs = append(errs, v.closeOn(d))
	}
	return errors.Join(append(errs, v.reservations.Close())...)
}

// closeOn waits until no command of a device's shards uses the volume, and takes its
// lanes there back. Called with Target.opening held.
func (v *volume) closeOn(d *Device) error {
	var errs []error
	for _, w := range d.workers {
		if l := v.lanes[w.index].Load(); l != nil && l.open {
			errs = append(errs, l.close())
			l.open = false
		}
	}
	if region := v.regions[d]; region != nil {
		errs = append(errs, region.Deregister())
		delete(v.regions, d)
	}
	return errors.Join(errs...)
}

// close ends the lane from outside its shard.
func (l *lane) close() error {
	idle := make(chan struct{})
	err := l.shard.Call(func() {
		detach := func() {
			l.lanes.remove(l)
			l.slot.Detach()
			l.attached = false
			close(idle)
		}
		if l.users == 0 {
			detach()
			return
		}
		l.closing = detach
	})
	if err != nil {
		return errors.Join(err, l.queue.Close())
	}
	<-idle
	return l.queue.Close()
}

// blocks is the size as hosts are told it.
func (v *volume) blocks() uint64 { return v.size.Load() }

// bytes is the same in bytes.
func (v *volume) bytes() uint64 { return v.blocks() << v.shift }

// inRange reports whether blocks from slba exist (BAD-INPUT of SLBA and NLB).
func (v *volume) inRange(slba capsule.LBA, blocks uint32) bool {
	return capsule.InRange(uint64(slba), uint64(blocks), v.blocks())
}

// used is NUSE: how many blocks have storage.
func (v *volume) used() uint64 {
	b, err := v.store.Allocated()
	if err != nil || b < 0 {
		return v.blocks()
	}
	return min((uint64(b)+1<<v.shift-1)>>v.shift, v.blocks())
}
