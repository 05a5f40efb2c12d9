//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// domain is a protection domain with its memory regions. The control plane changes the regions; shards, which need
// them to bind windows, read a snapshot.
type domain struct {
	dev     *device
	pd      *C.struct_ibv_pd
	mu      sync.Mutex  // serialises changes
	closed  atomic.Bool // set with mu held: the protection domain is freed
	regions atomic.Pointer[map[rdmatransport.LKey]*region]
}

// region is registered memory. Peers use its virtual address.
type region struct {
	domain *domain
	mr     *C.struct_ibv_mr // nil once deregistered
	mem    []byte           // nil for a dma-buf
	iova   uint64
	lkey   rdmatransport.LKey
	rkey   rdmatransport.RKey
}

// NewDomain implements rdmatransport.Device.
func (d *device) NewDomain() (rdmatransport.Domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	dom := &domain{dev: d}
	dom.regions.Store(&map[rdmatransport.LKey]*region{})
	if err := failure(C.nv_alloc_pd(d.lib, d.context, &dom.pd), "allocating a protection domain"); err != nil {
		return nil, err
	}
	d.domains[dom] = struct{}{}
	return dom, nil
}

// Close implements rdmatransport.Domain.
func (d *domain) Close() error {
	if n := len(*d.regions.Load()); n > 0 {
		return fmt.Errorf("verbs: domain still has %d memory regions", n)
	}
	d.dev.mu.Lock()
	_, open := d.dev.domains[d]
	delete(d.dev.domains, d)
	d.dev.mu.Unlock()
	if !open {
		return nil
	}
	return d.destroy()
}

// destroy frees the domain and its remaining regions.
func (d *domain) destroy() error {
	d.mu.Lock()
	d.closed.Store(true)
	d.mu.Unlock()
	var errs []error
	for _, r := range *d.regions.Load() {
		errs = append(errs, r.Deregister())
	}
	errs = append(errs, d.dev.freed(C.nv_dealloc_pd(d.dev.lib, d.pd), "freeing a protection domain"))
	return errors.Join(errs...)
}

// accessFor returns the device's access flags for a region.
func (d *device) accessFor(access rdmatransport.Access) C.uint32_t {
	flags := accessFlags(access)
	if d.attrs.Windows {
		flags |= C.NV_WINDOW_BIND
	}
	// On iWARP the peer answers a READ by writing to the sink (RFC 5040, 5.2).
	if d.hw.iwarp != 0 && access&rdmatransport.AccessLocalWrite != 0 {
		flags |= C.NV_REMOTE_WRITE
	}
	return flags
}

// remoteAccess returns the access flags of a queue pair. On iWARP responses to READs are writes, which a queue pair
// without any remote access may refuse.
func (d *device) remoteAccess(none bool) C.uint32_t {
	switch {
	case none && d.hw.iwarp != 0:
		return C.NV_REMOTE_WRITE
	case none:
		return 0
	case d.attrs.Atomics:
		return C.NV_REMOTE_READ | C.NV_REMOTE_WRITE | C.NV_REMOTE_ATOMIC
	}
	return C.NV_REMOTE_READ | C.NV_REMOTE_WRITE
}

func accessFlags(access rdmatransport.Access) (flags C.uint32_t) {
	for _, f := range [...]struct {
		right rdmatransport.Access
		flag  C.uint32_t
	}{
		{rdmatransport.AccessLocalWrite, C.NV_LOCAL_WRITE}, {rdmatransport.AccessRemoteRead, C.NV_REMOTE_READ},
		{rdmatransport.AccessRemoteWrite, C.NV_REMOTE_WRITE}, {rdmatransport.AccessRemoteAtomic, C.NV_REMOTE_ATOMIC},
	} {
		if access&f.right != 0 {
			flags |= f.flag
		}
	}
	return flags
}

// Register implements rdmatransport.Domain (ibv_reg_mr(3)).
func (d *domain) Register(b []byte, access rdmatransport.Access) (rdmatransport.MemoryRegion, error) {
	if len(b) == 0 {
		return nil, errors.New("verbs: cannot register an empty region")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return nil, rdmatransport.ErrClosed
	}
	r := &region{domain: d, mem: b, iova: address(b)}
	var lkey, rkey C.uint32_t
	code := C.nv_reg_mr(d.dev.lib, d.pd, C.uintptr_t(address(b)), C.size_t(len(b)), d.dev.accessFor(access), &r.mr, &lkey, &rkey)
	if err := failure(code, fmt.Sprintf("registering %d bytes", len(b))); err != nil {
		return nil, err
	}
	d.add(r, lkey, rkey)
	return r, nil
}

// add adds a region with its keys. mu must be held.
func (d *domain) add(r *region, lkey, rkey C.uint32_t) {
	r.lkey, r.rkey = rdmatransport.LKey(lkey), rdmatransport.RKey(rkey)
	next := maps.Clone(*d.regions.Load())
	next[r.lkey] = r
	d.regions.Store(&next)
}

// address returns the address of b. Go's heap does not move, and the caller keeps posted or registered memory
// reachable.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (r *region) Bytes() []byte            { return r.mem }
func (r *region) LKey() rdmatransport.LKey { return r.lkey }
func (r *region) RKey() rdmatransport.RKey { return r.rkey }
func (r *region) IOVA() uint64             { return r.iova }

// Deregister implements rdmatransport.MemoryRegion. It fails while a window is bound
// to the region.
func (r *region) Deregister() error {
	d := r.domain
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.mr == nil {
		return nil
	}
	if err := d.dev.freed(C.nv_dereg_mr(d.dev.lib, r.mr), "deregistering memory"); err != nil {
		return err
	}
	r.mr = nil
	next := maps.Clone(*d.regions.Load())
	delete(next, r.lkey)
	d.regions.Store(&next)
	return nil
}
