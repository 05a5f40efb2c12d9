package association

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Domain is the protection domain of an association, with the memory that is registered in it.
type Domain struct {
	RDMA    rdmatransport.Domain
	Windows bool // each command has its own key

	mu     sync.Mutex // guards closed, and serializes changes of all
	closed bool
	all    atomic.Pointer[[]*Memory]
}

// Memory is registered memory, which is read and written without a copy.
type Memory struct {
	*fabric.Memory
	slab *shard.Slab // closed with the memory; nil if the caller owns the memory
}

// Register registers memory. slab is the slab that contains it, or nil.
func (d *Domain) Register(mem []byte, slab *shard.Slab) (*Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	registered, err := fabric.RegisterMemory(d.RDMA, mem, d.Windows)
	if err != nil {
		return nil, err
	}
	m := &Memory{registered, slab}
	d.set(append(slices.Clone(d.registered()), m))
	return m, nil
}

// Bytes returns registered memory, or nil once it has been dropped.
func (d *Domain) Bytes(m *Memory) []byte {
	if !slices.Contains(d.registered(), m) {
		return nil
	}
	return m.Bytes()
}

// Drop unregisters the memory and closes its slab, once. No request may be using the memory.
func (d *Domain) Drop(m *Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.drop(m)
}

// drop must be called with mu held.
func (d *Domain) drop(m *Memory) error {
	all := d.registered()
	i := slices.Index(all, m)
	if i < 0 {
		return nil
	}
	d.set(slices.Delete(slices.Clone(all), i, i+1))
	err := m.Close()
	if m.slab != nil {
		err = errors.Join(err, m.slab.Close())
	}
	return err
}

// Close drops all memory and closes the protection domain.
func (d *Domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, m := range d.registered() {
		errs = append(errs, d.drop(m))
	}
	return errors.Join(append(errs, d.RDMA.Close())...)
}

func (d *Domain) registered() []*Memory {
	if p := d.all.Load(); p != nil {
		return *p
	}
	return nil
}

func (d *Domain) set(all []*Memory) { d.all.Store(&all) }

// Find returns the registered memory that contains p, and the offset of p in it, or nil.
func (d *Domain) Find(p []byte) (*fabric.Memory, int) {
	at := address(p)
	for _, m := range d.registered() {
		all := m.Bytes()
		if off := at - address(all); at >= address(all) && off <= uintptr(len(all)) && uintptr(len(p)) <= uintptr(len(all))-off {
			return m.Memory, int(off)
		}
	}
	return nil, 0
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
