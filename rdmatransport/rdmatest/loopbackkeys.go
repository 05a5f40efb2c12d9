package rdmatest

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

type domain struct {
	device  *device
	regions map[uint32]*region
	closed  bool // under the network's lock
}

type region struct {
	domain *domain
	mem    []byte
	key    uint32
	access rdmatransport.Access
	dead   bool
}

func (d *device) NewDomain() (rdmatransport.Domain, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.closed {
		return nil, rdmatransport.ErrClosed
	}
	return &domain{device: d, regions: map[uint32]*region{}}, nil
}

// nextKey returns a key that was never used: keys of a test need no secrecy.
func (n *Loopback) nextKey() uint32 {
	n.lastKey = n.lastKey*1664525 + 1013904223 // a full period over 32 bits
	return n.lastKey
}

func (d *domain) Register(b []byte, access rdmatransport.Access) (rdmatransport.MemoryRegion, error) {
	if len(b) == 0 {
		return nil, errors.New("loopback: empty region")
	}
	n := d.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.closed || d.device.closed {
		return nil, rdmatransport.ErrClosed
	}
	r := &region{domain: d, mem: b, key: n.nextKey(), access: access}
	d.regions[r.key] = r
	return r, nil
}

func (d *domain) Close() error {
	n := d.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(d.regions) > 0 {
		return fmt.Errorf("loopback: domain still has %d memory regions", len(d.regions))
	}
	d.closed = true
	return nil
}

func (r *region) Bytes() []byte            { return r.mem }
func (r *region) LKey() rdmatransport.LKey { return rdmatransport.LKey(r.key) }
func (r *region) RKey() rdmatransport.RKey { return rdmatransport.RKey(r.key) }
func (r *region) IOVA() uint64             { return uint64(address(r.mem)) }

func (r *region) Deregister() error {
	n := r.domain.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(r.domain.regions, r.key)
	r.dead = true
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func inRange(off, n, size uint64) bool { return n <= size && off <= size-n }

// local reports whether a scatter list may be used.
func (d *domain) local(sgl []rdmatransport.SGE, write bool) bool {
	for _, s := range sgl {
		r := d.regions[uint32(s.LKey)]
		switch {
		case r == nil, write && r.access&rdmatransport.AccessLocalWrite == 0:
			return false
		case !inRange(uint64(address(s.Buf)-address(r.mem)), uint64(len(s.Buf)), uint64(len(r.mem))):
			return false
		}
	}
	return true
}

type window struct {
	qp     *queuePair
	bound  bool
	key    uint32
	mem    []byte
	region *region
	access rdmatransport.Access
}

func (w *window) RKey() rdmatransport.RKey { return rdmatransport.RKey(w.key) }
func (w *window) IOVA() uint64             { return uint64(address(w.mem)) }
func (w *window) Close() error             { w.bound = false; return nil }

// remote finds the memory that a peer names.
func (q *queuePair) remote(key rdmatransport.RKey, va uint64, n int, need rdmatransport.Access) ([]byte, bool) {
	if n == 0 {
		return nil, true // no key check (IBTA volume 1, 9.7.4.1.4)
	}
	mem, access := []byte(nil), rdmatransport.Access(0)
	if w := q.window(key); w != nil {
		if !w.region.dead {
			mem, access = w.mem, w.access
		}
	} else if r := q.domain.regions[uint32(key)]; r != nil {
		mem, access = r.mem, r.access
	}
	off := va - uint64(address(mem))
	if access&need == 0 || !inRange(off, uint64(n), uint64(len(mem))) {
		return nil, false
	}
	return mem[off:][:n], true
}

func (q *queuePair) window(key rdmatransport.RKey) *window {
	for _, w := range q.windows {
		if w.bound && w.key == uint32(key) {
			return w
		}
	}
	return nil
}

func (q *queuePair) invalidate(key rdmatransport.RKey) bool {
	w := q.window(key)
	if w != nil {
		w.bound = false
	}
	return w != nil
}

// bind opens a window. It takes effect at the post, before anything posted later.
func (q *queuePair) bind(wr *rdmatransport.SendWR) bool {
	w, ok := wr.Window.(*window)
	if !ok || w.qp != q || len(wr.SGL) != 1 || len(wr.SGL[0].Buf) == 0 {
		return false
	}
	write := wr.Access&(rdmatransport.AccessRemoteWrite|rdmatransport.AccessRemoteAtomic) != 0
	if !q.domain.local(wr.SGL, write) {
		return false
	}
	w.bound, w.key, w.mem, w.access = true, q.cq.device.net.nextKey(), wr.SGL[0].Buf, wr.Access
	w.region = q.domain.regions[uint32(wr.SGL[0].LKey)]
	return true
}
