package storage

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Volume is a store that the target has opened: once, however many namespaces of whatever subsystems export it.
// It is immutable, except for its size, its health and its lanes.
type Volume struct {
	volumes *Volumes
	Name    string // what is exported, for logs
	store   backend.Store
	Info    backend.Info                    // as opened; the current size is in size
	Shift   uint                            // log2 of the block size
	size    atomic.Uint64                   // in blocks; see revalidate
	used    atomic.Uint64                   // allocated blocks; see Examine
	lanes   [MaxShards]atomic.Pointer[Lane] // by shard; each exists before its shard has queues
	users   map[*Namespace]struct{}         // under the mutex of Volumes
	leaving bool                            // it is being closed; under the mutex of Volumes
	written atomic.Bool                     // something may have been written since it was opened

	// The next two are written under the mutex of Volumes, except by ClearFault.
	blind atomic.Pointer[error] // why the size is unknown; nil: it is known
	whole atomic.Uint64         // number of blocks before the store became shorter; 0: it has not

	// regions has the registered memory of a store that is a Leaser; under the mutex of Volumes.
	regions map[*Site]rdmatransport.MemoryRegion

	Health   atomic.Pointer[health.State] // written under querying
	querying sync.Mutex                   // held while the store is queried, which may take seconds
	queried  time.Time                    // when its drive was queried last; under querying
	holes    holes                        // under querying
	asked    atomic.Int64                 // when the query under way began, by Volumes.age; 0: none is under way
	silent   atomic.Bool                  // a query takes too long, and that was logged
	closed   bool                         // under querying
	noted    noted                        // see newNotes

	Reservations *Reservations
}

// maxAlignment is the largest alignment that a store may require (backend.Info): buffers begin at a page boundary.
const maxAlignment = 4096

// newVolume checks a store and returns its volume.
func newVolume(volumes *Volumes, store backend.Store, name string) (*Volume, error) {
	info := store.Info()
	if info.BlockSize != 512 && info.BlockSize != 4096 {
		return nil, fmt.Errorf("block size %d: must be 512 or 4096", info.BlockSize)
	}
	if info.Size < int64(info.BlockSize) {
		return nil, fmt.Errorf("%d bytes: must hold at least one block", info.Size)
	}
	if a := info.Alignment; a < 0 || a > maxAlignment || a&(a-1) != 0 {
		return nil, fmt.Errorf("alignment %d: must be 1 or a power of two up to %d", a, maxAlignment)
	}
	v := &Volume{
		volumes: volumes, Name: name, store: store, Info: info,
		Shift: uint(bits.TrailingZeros(uint(info.BlockSize))), users: make(map[*Namespace]struct{}),
		regions: make(map[*Site]rdmatransport.MemoryRegion),
	}
	v.size.Store(uint64(info.Size) >> v.Shift)
	v.newNotes() // who opened the store has logged these
	h := health.Sound()
	h.Failed = v.Latched() != nil // hosts whose associations were moved from another process know of it
	v.Health.Store(h)
	return v, nil
}

// leaser returns the store if the device can send from its memory, or nil.
func (v *Volume) leaser(d *Site) backend.Leaser {
	if d.Pins && v.Info.Deallocate {
		return nil // the device would continue to use pages that the store has freed
	}
	leaser, _ := v.store.(backend.Leaser)
	return leaser
}

// open gives the volume a lane in every shard.
func (v *Volume) open() error {
	for _, d := range v.volumes.sites {
		if err := v.openOn(d); err != nil {
			return errors.Join(err, v.closeLanes())
		}
	}
	return nil
}

// openOn gives the volume lanes in a device's shards. If it fails, closeOn undoes its work. Called with the mutex
// of Volumes held.
func (v *Volume) openOn(d *Site) error {
	leaser := v.leaser(d)
	if leaser != nil {
		region, err := d.Domain.Register(leaser.Memory(), 0)
		if err != nil {
			return fmt.Errorf("registering its memory: %w", err)
		}
		v.regions[d] = region
	}
	for _, w := range d.shards {
		if err := v.openLane(d, w, leaser); err != nil {
			return err
		}
	}
	return nil
}

func (v *Volume) openLane(d *Site, w *Shard, leaser backend.Leaser) error {
	q, watch, err := v.openQueue(w.Shard, v.volumes.depth)
	if err != nil {
		return err
	}
	v.logNotes()
	l := v.lanes[w.Index].Load()
	if l == nil {
		l = new(Lane)
		v.lanes[w.Index].Store(l)
	}
	l.init(v, w, q, watch)
	if l.Leaser = leaser; leaser != nil {
		l.Memory, l.Key = leaser.Memory(), v.regions[d].LKey()
	}
	if err := w.Shard.Call(l.attach); err != nil {
		return errors.Join(err, q.Close())
	}
	l.open = true
	return nil
}

// openQueue opens a queue of the store for a shard. The queue's descriptor wakes the shard or, if either side does
// not support that, the store's notification does, from another goroutine.
func (v *Volume) openQueue(s *shard.Shard, depth int) (backend.Queue, backend.Watchable, error) {
	q, err := v.store.NewQueue(depth, s.Wake)
	if err != nil {
		return nil, nil, err
	}
	if q == nil {
		return nil, nil, fmt.Errorf("NewQueue of %T returned neither a queue nor an error", v.store)
	}
	w, ok := q.(backend.Watchable)
	if !ok || s.Watch(w.Descriptor()) == nil {
		if m, ok := q.(backend.MemoryUser); ok {
			m.UseMemory(s.Arena().Bytes(), shard.MaxBuffer)
		}
		return q, w, nil
	}
	// The descriptor cannot wake the shard: open the queue anew, without one.
	if err := q.Close(); err != nil {
		return nil, nil, err
	}
	q, err = v.store.NewQueue(depth, s.Wake)
	return q, nil, err
}

func (l *Lane) attach() {
	if b, ok := l.queue.(backend.ThreadBound); ok && b.ThreadBound() {
		l.shard.BindThread()
	}
	l.shard.Attach(&l.slot, l)
	l.Attached = true
	l.home.Store(l.shard)
}

// closeLanes closes the volume's lanes. Called with the mutex of Volumes held, after retire: no command uses the
// volume, and no new one can.
func (v *Volume) closeLanes() error {
	var errs []error
	for _, d := range v.volumes.sites {
		errs = append(errs, v.closeOn(d))
	}
	return errors.Join(errs...)
}

// retireOn closes the lanes in a device's shards to new operations. The channels are closed when the lanes have no
// users any more. Called with the mutex of Volumes held.
func (v *Volume) retireOn(d *Site) (quiet []<-chan struct{}) {
	for _, w := range d.shards {
		if l := v.lanes[w.Index].Load(); l != nil && l.open && l.retire() == nil {
			quiet = append(quiet, l.idle)
		}
	}
	return quiet
}

// closeOn waits until no command of a device's shards uses the volume, and closes its lanes there. Called with the
// mutex of Volumes held.
func (v *Volume) closeOn(d *Site) error {
	var errs []error
	for _, w := range d.shards {
		if l := v.lanes[w.Index].Load(); l != nil && l.open {
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

// retire closes the lane to new operations. idle is closed when it has no users any more. Called outside of its
// shard.
func (l *Lane) retire() error {
	if l.idle != nil {
		return nil
	}
	idle := make(chan struct{})
	err := l.shard.Call(func() {
		l.Attached = false
		detach := func() {
			if q, ok := l.queue.(backend.Releaser); ok {
				q.Release()
			}
			l.lanes.remove(l)
			l.slot.Detach()
			l.home.Store(nil)
			l.shard.StopTimer(&l.urging)
			l.shard.StopTimer(&l.watching)
			l.stalledAt.Store(0)
			close(idle)
		}
		if l.users == 0 {
			detach()
			return
		}
		l.closing = detach
	})
	if err == nil {
		l.idle = idle
	}
	return err
}

// close closes the lane when it has no users any more. Called outside of its shard.
func (l *Lane) close() error {
	err := l.retire()
	if err == nil {
		<-l.idle
	}
	l.idle = nil
	return errors.Join(err, l.queue.Close())
}

// OnLane calls f with a lane of the volume, in the lane's shard. It returns false if there is none.
func (v *Volume) OnLane(f func(*Lane)) (called bool) {
	for _, p := range v.volumes.present() {
		_ = p.Shard.Call(func() { // a shard that has ended has no lane
			if l := v.lanes[p.Index].Load(); l != nil && l.Attached {
				f(l)
				called = true
			}
		})
		if called {
			return true
		}
	}
	return false
}

// NoteWritten records that the store may have data in a volatile cache. Shards call it for each write. It is also
// called when a namespace is added to which another process has written without a flush.
func (v *Volume) NoteWritten() {
	if !v.written.Load() {
		v.written.Store(true)
	}
}

// Unflushed reports whether the store may have data in a volatile cache: it was written since it was opened, or by
// a predecessor. It stays true after a flush.
func (v *Volume) Unflushed() bool { return v.Info.Volatile && v.written.Load() }

// Lane returns the lane of a shard that has queues.
func (v *Volume) Lane(at Index) *Lane { return v.lanes[at].Load() }
