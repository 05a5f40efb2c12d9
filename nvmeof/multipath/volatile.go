package multipath

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// ErrWritesLost is the error of a flush if earlier acknowledged writes may be lost, since the
// target's machine has restarted without ending the subsystem in order. Later writes have been
// flushed, and later flushes succeed.
var ErrWritesLost = errors.New("the target's machine restarted before acknowledged writes were flushed: writes may be lost")

// A cache is what was written to a namespace through paths to one boot of a target's machine, which
// loses what was not flushed as it ends. Linux and NVMe have nothing of the kind: a flush says
// nothing of writes before a power failure in between.
type cache struct {
	last atomic.Uint64 // number of the last write that was acknowledged; see writes
	over atomic.Bool   // the boot has ended
}

// writes numbers those of a namespace that were acknowledged, and knows which may be lost. What is under
// way counts when it ends.
type writes struct {
	count    atomic.Uint64
	flushed  atomic.Uint64 // those up to this one are durable
	losses   atomic.Uint64 // how often some may have been lost
	returned atomic.Uint64 // of these a flush has returned so many

	// Under Subsystem.mu.
	caches    map[capsule.WriteVerifier]*cache // of boots that may not have ended
	led       map[*Path]capsule.WriteVerifier  // to which boot each path does, or did last
	announced uint64                           // losses that the last event was about
}

// isVolatile reports whether an operation that succeeded leaves something in a volatile cache.
func isVolatile(op backend.Op, fua bool) bool {
	switch op {
	case backend.OpWrite, backend.OpWriteZeroes, backend.OpCompareAndWrite, backend.OpCopy:
		return !fua
	}
	return false
}

// raise makes v at least n.
func raise(v *atomic.Uint64, n uint64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// acknowledged notes that n writes were, which are in a cache; nil: nobody can know when that is lost.
func (w *writes) acknowledged(c *cache, n int) {
	if n == 0 {
		return
	}
	last := w.count.Add(uint64(n))
	if c == nil {
		return
	}
	raise(&c.last, last)
	if c.over.Load() { // their completions were taken late
		w.losses.Add(1)
	}
}

// lose notes that the boot has ended whose cache it is.
func (w *writes) lose(c *cache) {
	c.over.Store(true) // before last is read: acknowledged does it the other way round
	if c.last.Load() > w.flushed.Load() {
		w.losses.Add(1)
	}
}

// A flushing is a flush since it was submitted.
type flushing struct{ count, returned uint64 }

func (w *writes) beginFlush() flushing { return flushing{w.count.Load(), w.returned.Load()} }

// endFlush takes the result of a flush, and returns what to tell of it. Of flushes that are under way
// together all tell.
func (w *writes) endFlush(f flushing, err error) error {
	if err != nil {
		return err
	}
	raise(&w.flushed, f.count)
	if n := w.losses.Load(); n > f.returned {
		raise(&w.returned, n)
		return ErrWritesLost
	}
	return nil
}

// cacheOf is the cache of a namespace that writes by a path are in, as the controller says there; nil: there is none, or
// the subsystem does not say when it is lost. It takes the boots to have ended of which it is not by what the
// controller says: an earlier one of the same target, whichever path led there, and that to which the path led before,
// unless another one still does: in its place is another target, or one that has forgotten all. Under Subsystem.mu.
func (n *Namespace) cacheOf(p *Path, ns *host.Namespace) *cache {
	v := ns.Identify().WriteVerifier
	if v == 0 || !n.info.Volatile {
		return nil
	}
	w := &n.writes
	if w.caches == nil {
		w.caches, w.led = make(map[capsule.WriteVerifier]*cache), make(map[*Path]capsule.WriteVerifier)
	}
	before := w.led[p]
	w.led[p] = v
	if len(w.led) > len(p.sub.paths) { // some were deleted
		maps.DeleteFunc(w.led, func(p *Path, _ capsule.WriteVerifier) bool { return !slices.Contains(p.sub.paths, p) })
	}
	led := slices.Collect(maps.Values(w.led))
	for o, c := range w.caches {
		switch {
		case o == v:
		case o.Keeper() == v.Keeper(), o == before && !w.isLive(o), len(w.caches) > 2*MaxPaths && !slices.Contains(led, o):
			w.lose(c)
			delete(w.caches, o)
		}
	}
	if w.caches[v] == nil {
		w.caches[v] = new(cache)
	}
	return w.caches[v]
}

// isLive reports whether a live path leads to a boot. Under Subsystem.mu.
func (w *writes) isLive(v capsule.WriteVerifier) bool {
	for p, o := range w.led {
		if o == v && p.session != nil {
			return true
		}
	}
	return false
}

// Losses is how often writes of the namespace may have been lost, as [ErrWritesLost] says: it is known before a
// flush returns it.
func (n *Namespace) Losses() uint64 { return n.writes.losses.Load() }

// Unflushed reports whether the namespace has acknowledged writes since the last flush that succeeded had begun, other
// than those with FUA.
func (n *Namespace) Unflushed() bool { return n.writes.count.Load() > n.writes.flushed.Load() }
