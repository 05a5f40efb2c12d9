package target

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A flush flushes the volume of a namespace without a Flush command. It belongs to the shard of its lane.
type flush struct {
	op   storage.Operation
	done func(err error)
}

// start begins a flush; done is called in the shard when it has completed.
func (f *flush) start(l *storage.Lane, done func(err error)) {
	f.op.Owner, f.done = f, done
	l.Enter(&f.op)
	f.op.Request = backend.Request{Op: backend.OpFlush}
	l.Put(&f.op)
}

// abandon stops waiting for the flush. If it was submitted to the store, it ends when the store completes it.
func (f *flush) abandon() {
	f.done = func(error) {}
	if f.op.Lane.Withdraw(&f.op) {
		f.op.Release()
	}
}

// Completed implements [storage.Owner].
func (f *flush) Completed(err error) {
	if err != nil {
		f.op.Lane.Failure(backend.OpFlush, err)
	}
	f.op.Release()
	f.done(err)
}

// Leasable and Admitted implement [storage.Owner]: a flush takes no lease and does not pass the gate.
func (f *flush) Leasable() {}
func (f *flush) Admitted() {}

// Wanted implements [storage.Owner]: a flush holds no lease.
func (f *flush) Wanted(time.Duration) {}

const (
	// drainFlushes is how many concurrent flushes a drain has: each may occupy a thread.
	drainFlushes = 16
	// slowFlush is the time after which others no longer wait for a flush: its store may hang.
	slowFlush = time.Second
)

// flushed is the result of the flush of a volume.
type flushed struct {
	of     *storage.Volume
	err    error
	undone bool // no device is left in whose shards it could be flushed
}

// volumeFlushes flushes several volumes, a limited number at a time. It must be used by one goroutine.
type volumeFlushes struct {
	waiting []*storage.Volume
	begun   map[*storage.Volume]time.Time // when those that have not ended began
	ended   chan flushed                  // has room for all, since shards must not block when they send
}

// newVolumeFlushes returns one with room for a number of volumes, each of which may be added once.
func newVolumeFlushes(volumes int) *volumeFlushes {
	return &volumeFlushes{begun: make(map[*storage.Volume]time.Time), ended: make(chan flushed, volumes)}
}

// add begins the flush of a volume, now or when others have ended.
func (f *volumeFlushes) add(v *storage.Volume) {
	f.waiting = append(f.waiting, v)
	f.next()
}

// end must be called with each result.
func (f *volumeFlushes) end(r flushed) {
	delete(f.begun, r.of)
	f.next()
}

// next begins as many waiting flushes as the limit allows.
func (f *volumeFlushes) next() {
	now, recent := time.Now(), 0
	for _, began := range f.begun {
		if now.Sub(began) < slowFlush {
			recent++
		}
	}
	for ; len(f.waiting) > 0 && recent < drainFlushes; recent++ {
		v := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.begun[v] = now
		if !v.OnLane(func(l *storage.Lane) { new(flush).start(l, func(err error) { f.ended <- flushed{of: v, err: err} }) }) {
			f.ended <- flushed{of: v, undone: true}
		}
	}
}

// flushStores flushes the stores of a subsystem that has no hosts any more. It reports whether all data that hosts
// wrote is durable, including that in namespaces that were removed.
func flushStores(s *Subsystem) (durable bool, err error) {
	var volumes []*storage.Volume
	for _, n := range s.Namespaces() {
		if !slices.Contains(volumes, n.ns.Volume) {
			volumes = append(volumes, n.ns.Volume)
		}
	}
	durable, err = flushVolumes(volumes...)
	return durable && s.life.left.Load() == 0, err
}

// flushVolumes flushes the volumes, which must be distinct, and reports whether all their data is durable. Data
// that a store lost when it failed is not durable, but that is no error, since it was reported before. It is no
// error either if a store was closed, or if no device is left, whose shards flush.
func flushVolumes(all ...*storage.Volume) (durable bool, err error) {
	volumes := slices.DeleteFunc(all, func(v *storage.Volume) bool { return !v.Unflushed() })
	flushes := newVolumeFlushes(len(volumes))
	for _, v := range volumes {
		flushes.add(v)
	}
	slow := time.NewTicker(slowFlush)
	defer slow.Stop()
	durable = true
	var errs []error
	for left := len(volumes); left > 0; {
		select {
		case r := <-flushes.ended:
			left--
			flushes.end(r)
			durable = durable && r.err == nil && !r.undone
			if r.err != nil && r.of.Latched() == nil && !errors.Is(r.err, backend.ErrClosed) {
				errs = append(errs, fmt.Errorf("flush of %s: %w", r.of.Name, r.err))
			}
		case <-slow.C:
			flushes.next()
		}
	}
	return durable, errors.Join(errs...)
}
