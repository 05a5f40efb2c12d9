package storage

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Volume is a store that the target has open: once, however many namespaces of whatever
// subsystems export it. It is immutable, except for its size, its health and its lanes.
type Volume struct {
	volumes *Volumes
	Name    string // what is exported, for logs
	store   backend.Store
	Info    backend.Info                    // when it was opened; the size is in blocks
	Shift   uint                            // log2 of the block size
	size    atomic.Uint64                   // in blocks; see revalidate
	used    atomic.Uint64                   // likewise, of storage; see Examine
	lanes   [MaxShards]atomic.Pointer[Lane] // by shard; each is there before its shard has queues
	users   map[*Namespace]struct{}         // under the mutex of Volumes
	leaving bool                            // being closed; under the mutex of Volumes
	written atomic.Bool                     // something may have changed since it was opened

	// Written under the mutex of Volumes, except by ClearFault.
	blind atomic.Pointer[error] // why the size is not known; nil: it is
	whole atomic.Uint64         // blocks before the store became shorter; 0: it has not

	// regions are the memory of a store that is a Leaser; under the mutex of Volumes.
	regions map[*Site]rdmatransport.MemoryRegion

	Health   atomic.Pointer[health.State] // written under querying
	querying sync.Mutex                   // held while the store is queried, which may take seconds
	queried  time.Time                    // under querying: when its drive was queried last
	holes    holes                        // under querying
	asked    atomic.Int64                 // since when the store is being asked, by Volumes.age; 0: it is not
	silent   atomic.Bool                  // that takes too long, which was logged
	closed   bool                         // under querying

	Reservations *Reservations
}

// maxAlignment is the most that a store may demand (backend.Info): buffers begin with a page.
const maxAlignment = 4096

// newVolume checks a store.
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
	h := health.Sound()
	h.Failed = v.Latched() != nil // which hosts that go on with it know from another process
	v.Health.Store(h)
	return v, nil
}

// leaser is the store if a device can send from its memory, or nil.
func (v *Volume) leaser(d *Site) backend.Leaser {
	if d.Pins && v.Info.Deallocate {
		return nil // the device would go on with pages that the store has given back
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

// openOn gives the volume lanes in a device's shards. If it fails closeOn undoes what it
// did. Called with the mutex of Volumes held.
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
	known := len(v.notes())
	q, watch, err := v.openQueue(w.Shard, v.volumes.depth)
	if err != nil {
		return err
	}
	for _, note := range v.notes()[known:] { // earlier ones were logged when the store was opened
		v.volumes.log.Warn(note, zap.String("export", v.Name))
	}
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

func (v *Volume) notes() []string {
	if n, ok := v.store.(backend.Noter); ok {
		return n.Notes()
	}
	return nil
}

// openQueue opens a queue of the store for a shard, which the queue's descriptor wakes.
// Where either side cannot do that the store's notification wakes it, from another
// goroutine.
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
	// the descriptor wakes the shard, which need not poll
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

// closeLanes closes the volume's lanes. Called with the mutex of Volumes held, after retire:
// no command uses the volume, and no new one can.
func (v *Volume) closeLanes() error {
	var errs []error
	for _, d := range v.volumes.sites {
		errs = append(errs, v.closeOn(d))
	}
	return errors.Join(errs...)
}

// retireOn ends the lanes in a device's shards for new operations. The channels are
// closed when those have no users any more. Called with the mutex of Volumes held.
func (v *Volume) retireOn(d *Site) (quiet []<-chan struct{}) {
	for _, w := range d.shards {
		if l := v.lanes[w.Index].Load(); l != nil && l.open && l.retire() == nil {
			quiet = append(quiet, l.idle)
		}
	}
	return quiet
}

// closeOn waits until no command of a device's shards uses the volume, and closes its
// lanes there. Called with the mutex of Volumes held.
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

// retire ends the lane for new operations, from outside its shard. idle is closed when it
// has no users any more.
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

// close closes the lane, which has no users any more, from outside its shard.
func (l *Lane) close() error {
	err := l.retire()
	if err == nil {
		<-l.idle
	}
	l.idle = nil
	return errors.Join(err, l.queue.Close())
}

// OnLane calls f with a lane of the volume, in the lane's shard, and reports whether there is
// one.
func (v *Volume) OnLane(f func(*Lane)) (called bool) {
	for _, p := range v.volumes.present() {
		_ = p.Shard.Call(func() { // one that has ended has no lane
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

// NoteWritten notes that the store may have something in a volatile cache: shards do for each write, and who gives
// it to a namespace to which another process has written, and which that has not flushed.
func (v *Volume) NoteWritten() {
	if !v.written.Load() {
		v.written.Store(true)
	}
}

// Unflushed reports whether the store may have something in a volatile cache: it was written since it
// was opened, or by whom it is inherited from, flushed or not.
func (v *Volume) Unflushed() bool { return v.Info.Volatile && v.written.Load() }

// Lane is the lane of a shard that has queues.
func (v *Volume) Lane(at Index) *Lane { return v.lanes[at].Load() }
