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

// A Volume is a store as the target has it open: once, however many namespaces
// of whatever subsystems export it. It does not change, except for its size and
// for the backend queues of its shards.
type Volume struct {
	volumes *Volumes
	Name    string // what is exported, for logs
	store   backend.Store
	Info    backend.Info                    // when it was opened; the size is in blocks
	Shift   uint                            // log2 of the block size
	size    atomic.Uint64                   // in blocks; see revalidate
	lanes   [MaxPlaces]atomic.Pointer[Lane] // by shard; each is there before its shard has queues
	users   map[*Namespace]struct{}         // under the mutex of Volumes
	leaving bool                            // nobody has it any more; under the mutex of Volumes

	// Written under the mutex of Volumes, but for what ClearFault takes back.
	blind atomic.Pointer[error] // why the store does not know its size; nil: it does
	whole atomic.Uint64         // blocks that it had before it was cut off; 0: it is whole

	// regions are the memory of a store that can be viewed; under the mutex of Volumes.
	regions map[*Site]rdmatransport.MemoryRegion

	Health atomic.Pointer[health.State] // written under asking
	asking sync.Mutex                   // held while the store is asked for it, which may take seconds
	asked  time.Time                    // under asking: when its drive was asked last
	closed bool                         // under asking

	Reservations *Reservations
}

// newVolume judges a store.
func newVolume(volumes *Volumes, store backend.Store, name string) (*Volume, error) {
	info := store.Info()
	if info.BlockSize != 512 && info.BlockSize != 4096 {
		return nil, fmt.Errorf("block size %d: must be 512 or 4096", info.BlockSize)
	}
	if info.Size < int64(info.BlockSize) {
		return nil, fmt.Errorf("%d bytes: must hold at least one block", info.Size)
	}
	v := &Volume{
		volumes: volumes, Name: name, store: store, Info: info,
		Shift: uint(bits.TrailingZeros(uint(info.BlockSize))), users: make(map[*Namespace]struct{}),
		regions: make(map[*Site]rdmatransport.MemoryRegion),
	}
	v.size.Store(uint64(info.Size) >> v.Shift)
	v.Health.Store(health.Sound())
	return v, nil
}

// viewer is the store as one from whose memory a device itself sends, or nil.
func (v *Volume) viewer(d *Site) backend.Viewer {
	if d.Pins && v.Info.Deallocate {
		return nil // the device would go on with pages that the store has given back
	}
	viewer, _ := v.store.(backend.Viewer)
	return viewer
}

// open gives the volume a lane on every shard.
func (v *Volume) open() error {
	for _, d := range v.volumes.sites {
		if err := v.openOn(d); err != nil {
			return errors.Join(err, v.close())
		}
	}
	return nil
}

// OpenOn gives the volume lanes on a device's shards. If it fails closeOn takes back
// what there is. Called with the mutex of Volumes held.
func (v *Volume) openOn(d *Site) error {
	viewer := v.viewer(d)
	if viewer != nil {
		region, err := d.Domain.Register(viewer.Memory(), 0)
		if err != nil {
			return fmt.Errorf("registering its memory: %w", err)
		}
		v.regions[d] = region
	}
	for _, w := range d.places {
		if err := v.openLane(d, w, viewer); err != nil {
			return err
		}
	}
	return nil
}

func (v *Volume) openLane(d *Site, w *Place, viewer backend.Viewer) error {
	known := len(v.notes())
	q, watch, err := v.openQueue(w.Shard, v.volumes.depth)
	if err != nil {
		return err
	}
	for _, note := range v.notes()[known:] { // those of before are known to who opened the store
		v.volumes.log.Warn(note, zap.String("export", v.Name))
	}
	l := v.lanes[w.Index].Load()
	if l == nil {
		l = new(Lane)
		v.lanes[w.Index].Store(l)
	}
	l.init(v, w, q, watch)
	if l.Viewer = viewer; viewer != nil {
		l.Memory, l.Key = viewer.Memory(), v.regions[d].LKey()
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

// openQueue opens a queue of the store for a shard, whose sleep its descriptor
// ends. Where either side has none of that the store notifies, by way of another
// goroutine.
func (v *Volume) openQueue(s *shard.Shard, depth int) (backend.Queue, backend.Watchable, error) {
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

func (l *Lane) attach() {
	if b, ok := l.queue.(backend.ThreadBound); ok && b.ThreadBound() {
		l.shard.BindThread()
	}
	l.shard.Attach(&l.slot, l)
	l.Attached = true
}

// close gives the volume's lanes back. Called with the mutex of Volumes held, when retire has
// waited: no command uses the volume, and no new one can have it.
func (v *Volume) close() error {
	var errs []error
	for _, d := range v.volumes.sites {
		errs = append(errs, v.closeOn(d))
	}
	return errors.Join(append(errs, v.Reservations.Close())...)
}

// retireOn keeps what is new from the lanes on a device's shards, and tells when what is
// there has left. Called with the mutex of Volumes held.
func (v *Volume) retireOn(d *Site) (quiet []<-chan struct{}) {
	for _, w := range d.places {
		if l := v.lanes[w.Index].Load(); l != nil && l.open && l.retire() == nil {
			quiet = append(quiet, l.idle)
		}
	}
	return quiet
}

// closeOn waits until no command of a device's shards uses the volume, and takes its
// lanes there back. Called with the mutex of Volumes held.
func (v *Volume) closeOn(d *Site) error {
	var errs []error
	for _, w := range d.places {
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

// retire keeps what is new from the lane, from outside its shard. idle tells when what is
// there has left.
func (l *Lane) retire() error {
	if l.idle != nil {
		return nil
	}
	idle := make(chan struct{})
	err := l.shard.Call(func() {
		l.Attached = false
		detach := func() {
			l.lanes.remove(l)
			l.slot.Detach()
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

// close ends the lane from outside its shard, when nobody has it any more.
func (l *Lane) close() error {
	err := l.retire()
	if err == nil {
		<-l.idle
	}
	l.idle = nil
	return errors.Join(err, l.queue.Close())
}

// Lane is the lane of a shard that has queues.
func (v *Volume) Lane(at Index) *Lane { return v.lanes[at].Load() }
