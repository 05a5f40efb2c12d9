package target

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A flush makes durable what was written to a namespace, where no Flush command requests
// it. It belongs to the shard of its lane.
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

// abandon has nobody wait for the flush any more. It ends when the store ends it, if that has it.
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

// Leasable and Admitted implement [storage.Owner]: a flush takes no lease, and no gate.
func (f *flush) Leasable() {}
func (f *flush) Admitted() {}

// Wanted implements [storage.Owner]: a flush leases nothing.
func (f *flush) Wanted(time.Duration) {}

const (
	// drainFlushes is how many flushes a drain has under way: each may have a thread.
	drainFlushes = 16
	// slowFlush is how long a flush may take until it is no reason for others to wait: its store may hang.
	slowFlush = time.Second
)

// A flushed is the result of the flush of a volume.
type flushed struct {
	of     *storage.Volume
	err    error
	undone bool // no device is left by which it could be flushed
}

// volumeFlushes are the flushes of several volumes, some at a time. They belong to one goroutine.
type volumeFlushes struct {
	waiting []*storage.Volume
	begun   map[*storage.Volume]time.Time // and not ended
	ended   chan flushed                  // has room for all: shards send, and do not wait
}

// newVolumeFlushes has room for those of so many volumes, one each.
func newVolumeFlushes(volumes int) *volumeFlushes {
	return &volumeFlushes{begun: make(map[*storage.Volume]time.Time), ended: make(chan flushed, volumes)}
}

// add begins the flush of a volume, or has it wait for its turn.
func (f *volumeFlushes) add(v *storage.Volume) {
	f.waiting = append(f.waiting, v)
	f.next()
}

// end is called with each result.
func (f *volumeFlushes) end(r flushed) {
	delete(f.begun, r.of)
	f.next()
}

// next begins those whose turn it is.
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

// flushStores makes durable what hosts, of which there are none any more, wrote to the subsystem's
// namespaces, and reports whether all of it is, also in those that have left.
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

// flushVolumes makes durable what was written to volumes, each of which is there once, and reports whether all
// of it is. That what a store has lost as it failed is not durable is no error: it was reported. Nor is it one
// that somebody has closed a store, or removed all devices, whose shards flush.
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
