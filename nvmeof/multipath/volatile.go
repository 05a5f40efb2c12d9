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

// ErrWritesLost is the error of a flush if earlier acknowledged writes may be lost because the target's machine
// restarted without an orderly end of the subsystem. Later writes have been flushed, and later flushes succeed.
var ErrWritesLost = errors.New("the target's machine restarted before acknowledged writes were flushed: writes may be lost")

// A cache stands for the writes to a namespace through paths to one boot of a target's machine, which loses what was
// not flushed when it ends. Linux and NVMe have no equivalent: there, a flush says nothing about writes before a power
// failure.
type cache struct {
	last atomic.Uint64 // number of the last acknowledged write; see writes
	over atomic.Bool   // the boot has ended
}

// writes numbers the acknowledged writes of a namespace, and tracks which may be lost. A write counts when it
// completes.
type writes struct {
	count    atomic.Uint64
	flushed  atomic.Uint64 // writes up to this number are durable
	losses   atomic.Uint64 // how often writes may have been lost
	returned atomic.Uint64 // how many of the losses a flush has returned

	// Guarded by Subsystem.mu.
	caches    map[capsule.WriteVerifier]*cache // of boots that may not have ended
	boots     map[*Path]capsule.WriteVerifier  // the boot that each path leads to, or led to last
	announced uint64                           // losses at the last event
}

// isVolatile reports whether a successful operation leaves data in a volatile cache.
func isVolatile(op backend.Op, fua bool) bool {
	switch op {
	case backend.OpWrite, backend.OpWriteZeroes, backend.OpCompareAndWrite, backend.OpCopy:
		return !fua
	}
	return false
}

// raise raises v to n if it is less.
func raise(v *atomic.Uint64, n uint64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// acknowledged counts n completed writes, which are in a cache; nil: its loss cannot be detected.
func (w *writes) acknowledged(c *cache, n int) {
	if n == 0 {
		return
	}
	last := w.count.Add(uint64(n))
	if c == nil {
		return
	}
	raise(&c.last, last)
	if c.over.Load() { // their completions were taken after the boot had ended
		w.losses.Add(1)
	}
}

// lose records that the boot of a cache has ended.
func (w *writes) lose(c *cache) {
	c.over.Store(true) // before last is loaded: acknowledged uses the reverse order
	if c.last.Load() > w.flushed.Load() {
		w.losses.Add(1)
	}
}

// A flushing is the state of writes when a flush was submitted.
type flushing struct{ count, returned uint64 }

func (w *writes) beginFlush() flushing { return flushing{w.count.Load(), w.returned.Load()} }

// endFlush returns the final error of a flush with result err. Of several flushes in flight, all return a loss.
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

// cacheOf returns the cache of writes on path p, according to the write verifier in the controller's Identify data. It
// returns nil if there is no volatile cache, or the subsystem does not report its loss. Subsystem.mu must be held.
//
// The verifier shows that other boots have ended: an earlier one of the same target, whichever path led there, and the
// one that the path led to before, unless a live path still leads there: another target took its place, or the target
// lost its state.
func (n *Namespace) cacheOf(p *Path, ns *host.Namespace) *cache {
	v := ns.Identify().WriteVerifier
	if v == 0 || !n.info.Volatile {
		return nil
	}
	w := &n.writes
	if w.caches == nil {
		w.caches, w.boots = make(map[capsule.WriteVerifier]*cache), make(map[*Path]capsule.WriteVerifier)
	}
	before := w.boots[p]
	w.boots[p] = v
	if len(w.boots) > len(p.sub.paths) { // some were deleted
		maps.DeleteFunc(w.boots, func(p *Path, _ capsule.WriteVerifier) bool { return !slices.Contains(p.sub.paths, p) })
	}
	led := slices.Collect(maps.Values(w.boots))
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

// isLive reports whether a live path leads to a boot. Subsystem.mu must be held.
func (w *writes) isLive(v capsule.WriteVerifier) bool {
	for p, o := range w.boots {
		if o == v && p.session != nil {
			return true
		}
	}
	return false
}

// Losses returns how often writes of the namespace may have been lost, as [ErrWritesLost] says. A loss is counted
// before a flush returns it.
func (n *Namespace) Losses() uint64 { return n.writes.losses.Load() }

// Unflushed reports whether writes without FUA have been acknowledged since the last successful flush began.
func (n *Namespace) Unflushed() bool { return n.writes.count.Load() > n.writes.flushed.Load() }
