package softroce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// domain is a protection domain: the table of its memory regions. Regions come
// and go on the control plane; shards read a snapshot.
type domain struct {
	dev     *Device
	mu      sync.Mutex                              // serialises changes of regions
	closed  atomic.Bool                             // set with mu held
	regions [256]atomic.Pointer[map[uint32]*region] // by the highest bits of the key, so that changes copy little
}

// table is where a key is, if it is anywhere.
func (d *domain) table(key uint32) *atomic.Pointer[map[uint32]*region] { return &d.regions[key>>24] }

// region is registered memory; its local and remote key are the same number.
type region struct {
	domain *domain
	mem    []byte
	iova   uint64
	key    uint32
	access rdmatransport.Access
	dead   atomic.Bool // the keys of windows over it are, too
}

// NewDomain implements rdmatransport.Device.
func (d *Device) NewDomain() (rdmatransport.Domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	dom, none := &domain{dev: d}, map[uint32]*region{}
	for i := range dom.regions {
		dom.regions[i].Store(&none)
	}
	return dom, nil
}

// over reports whether the domain gives nothing out any more: it is closed, or its device is.
func (d *domain) over() bool {
	select {
	case <-d.dev.ended:
		return true
	default:
		return d.closed.Load()
	}
}

func (d *domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for i := range d.regions {
		n += len(*d.regions[i].Load())
	}
	if n > 0 {
		return fmt.Errorf("softroce: domain still has %d memory regions", n)
	}
	d.closed.Store(true)
	return nil
}

func (d *domain) Register(b []byte, access rdmatransport.Access) (rdmatransport.MemoryRegion, error) {
	if len(b) == 0 {
		return nil, errors.New("softroce: cannot register an empty region")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over() {
		return nil, rdmatransport.ErrClosed
	}
	r := &region{domain: d, mem: b, access: access}
	for r.key == 0 || (*d.table(r.key).Load())[r.key] != nil {
		r.key = d.dev.random()
	}
	// Peers see an address that says nothing about this process, but keeps the
	// memory's alignment within a page.
	page := uint64(uintptr(unsafe.Pointer(&b[0]))) & 4095
	r.iova = 1<<46 | uint64(d.dev.random())<<12 | page
	d.replace(r.key, func(m map[uint32]*region) { m[r.key] = r })
	return r, nil
}

// replace publishes a changed copy of a key's table.
func (d *domain) replace(key uint32, change func(map[uint32]*region)) {
	old := *d.table(key).Load()
	next := make(map[uint32]*region, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	change(next)
	d.table(key).Store(&next)
}

func (r *region) Bytes() []byte            { return r.mem }
func (r *region) LKey() rdmatransport.LKey { return rdmatransport.LKey(r.key) }
func (r *region) RKey() rdmatransport.RKey { return rdmatransport.RKey(r.key) }
func (r *region) IOVA() uint64             { return r.iova }

// Deregister implements rdmatransport.MemoryRegion. A shard that has found the region may be amid an answer to a
// READ of it, so that the memory may be unmapped only when that has gone out.
func (r *region) Deregister() error {
	d := r.domain
	d.mu.Lock()
	r.dead.Store(true)
	d.replace(r.key, func(m map[uint32]*region) {
		if m[r.key] == r { // else a later one has the key
			delete(m, r.key)
		}
	})
	d.mu.Unlock()
	for _, s := range d.dev.shards {
		s.reach.wait()
	}
	return nil
}

// contains reports whether buf lies inside the region.
func (r *region) contains(buf []byte) bool {
	if len(buf) == 0 {
		return true
	}
	base, at := uintptr(unsafe.Pointer(&r.mem[0])), uintptr(unsafe.Pointer(&buf[0]))
	return at >= base && wire.InRange(uint64(at-base), uint64(len(buf)), uint64(len(r.mem)))
}

// keyTable resolves keys for one queue pair: its domain's regions and its own
// windows. It belongs to the queue pair's shard.
type keyTable struct {
	domain  *domain
	rng     *rand.ChaCha8
	last    *region // most local lookups repeat the one before
	lastIn  *map[uint32]*region
	windows []window // index: the low bits of the key
	bits    uint
}

// window is a type 2B memory window: bound to one queue pair, opened by it,
// closed by either side.
type window struct {
	table  *keyTable
	index  uint32
	inUse  bool
	bound  bool
	key    uint32
	iova   uint64
	mem    []byte
	region *region // that mem lies in
	access rdmatransport.Access

	written uint64 // bytes, by the peer, since the last bind
}

var _ rdmatransport.CountingWindow = (*window)(nil)

func (k *keyTable) init(d *domain, rng *rand.ChaCha8, windows int) {
	k.domain, k.rng = d, rng
	k.windows = make([]window, windows)
	for 1<<k.bits < windows {
		k.bits++
	}
	for i := range k.windows {
		k.windows[i].table, k.windows[i].index = k, uint32(i)
	}
}

func (k *keyTable) allocate() (*window, error) {
	for i := range k.windows {
		if w := &k.windows[i]; !w.inUse {
			w.inUse = true
			return w, nil
		}
	}
	return nil, fmt.Errorf("softroce: all %d memory windows of the queue pair are allocated", len(k.windows))
}

func (w *window) RKey() rdmatransport.RKey { return rdmatransport.RKey(w.key) }
func (w *window) IOVA() uint64             { return w.iova }
func (w *window) Written() uint64          { return w.written }

func (w *window) Close() error {
	w.inUse = false
	w.unbind()
	return nil
}

func (w *window) unbind() { w.bound, w.mem, w.region = false, nil, nil }

// lookup finds a live window by its key.
func (k *keyTable) lookup(key uint32) *window {
	i := key & (1<<k.bits - 1)
	if int(i) < len(k.windows) && k.windows[i].bound && k.windows[i].key == key {
		return &k.windows[i]
	}
	return nil
}

// region finds a region of the domain; the snapshot's identity tells whether the
// one remembered is still alive.
func (k *keyTable) region(key uint32) *region {
	m := k.domain.table(key).Load()
	if k.last != nil && k.lastIn == m && k.last.key == key {
		return k.last
	}
	r := (*m)[key]
	k.last, k.lastIn = r, m
	return r
}

// Local implements rc.Keys.
func (k *keyTable) Local(key rdmatransport.LKey, buf []byte, write bool) bool {
	r := k.region(uint32(key))
	return r != nil && (!write || r.access&rdmatransport.AccessLocalWrite != 0) && r.contains(buf)
}

// Remote implements rc.Keys.
func (k *keyTable) Remote(key rdmatransport.RKey, va uint64, n uint32, need rdmatransport.Access) ([]byte, bool) {
	mem, iova, access := []byte(nil), uint64(0), rdmatransport.Access(0)
	if w := k.lookup(uint32(key)); w != nil {
		if !w.region.dead.Load() {
			mem, iova, access = w.mem, w.iova, w.access
		}
	} else if r := k.region(uint32(key)); r != nil {
		mem, iova, access = r.mem, r.iova, r.access
	}
	if access&need != need || va < iova || !wire.InRange(va-iova, uint64(n), uint64(len(mem))) {
		return nil, false
	}
	return mem[va-iova:][:n:n], true
}

// Written implements rc.Keys: windows count.
func (k *keyTable) Written(key rdmatransport.RKey, n uint32) {
	if w := k.lookup(uint32(key)); w != nil {
		w.written += uint64(n)
	}
}

// Live implements rc.Keys.
func (k *keyTable) Live(key rdmatransport.RKey) bool { return k.lookup(uint32(key)) != nil }

// Invalidate implements rc.Keys. Only windows can be invalidated: a region's key
// lives until Deregister.
func (k *keyTable) Invalidate(key rdmatransport.RKey) bool {
	w := k.lookup(uint32(key))
	if w == nil {
		return false
	}
	w.unbind()
	return true
}

// Bind implements rc.Keys: the window gets a fresh unpredictable key and the
// address of the memory in its region.
func (k *keyTable) Bind(rw rdmatransport.Window, s rdmatransport.SGE, access rdmatransport.Access) bool {
	w, ok := rw.(*window)
	if !ok || w.table != k || !w.inUse || len(s.Buf) == 0 {
		return false
	}
	r := k.region(uint32(s.LKey))
	needsWrite := access&(rdmatransport.AccessRemoteWrite|rdmatransport.AccessRemoteAtomic) != 0
	if r == nil || !r.contains(s.Buf) || needsWrite && r.access&rdmatransport.AccessLocalWrite == 0 {
		return false
	}
	old := w.key
	for w.key == old || k.region(w.key) != nil {
		w.key = uint32(k.rng.Uint64())<<k.bits | w.index
	}
	w.iova = r.iova + uint64(uintptr(unsafe.Pointer(&s.Buf[0]))-uintptr(unsafe.Pointer(&r.mem[0])))
	w.mem, w.region, w.access, w.bound, w.written = s.Buf, r, access, true, 0
	return true
}
