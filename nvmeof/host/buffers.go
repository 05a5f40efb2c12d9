package host

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

// Buffers is memory that a controller's data moves into and out of without a
// copy, page aligned and outside the Go heap.
type Buffers struct {
	controller *Controller
	slab       *shard.Slab
	memory     *fabric.Memory
}

// NewBuffers maps and registers at least size bytes.
func (c *Controller) NewBuffers(size int) (*Buffers, error) {
	c.memory.Lock()
	defer c.memory.Unlock()
	if c.freed {
		return nil, ErrClosed
	}
	slab, err := shard.NewSlab(size)
	if err != nil {
		return nil, err
	}
	memory, err := fabric.RegisterMemory(c.domain, slab.Bytes(), c.windows)
	if err != nil {
		return nil, errors.Join(err, slab.Close())
	}
	b := &Buffers{c, slab, memory}
	c.setBuffers(append(slices.Clone(c.registered()), b))
	return b, nil
}

// Bytes is the memory.
func (b *Buffers) Bytes() []byte { return b.slab.Bytes() }

// Close unmaps the memory. No request may be using it.
func (b *Buffers) Close() error {
	c := b.controller
	c.memory.Lock()
	defer c.memory.Unlock()
	return c.dropBuffers(b)
}

// dropBuffers is called with the memory lock held.
func (c *Controller) dropBuffers(b *Buffers) error {
	all := c.registered()
	i := slices.Index(all, b)
	if i < 0 {
		return nil
	}
	c.setBuffers(slices.Delete(slices.Clone(all), i, i+1))
	return errors.Join(b.memory.Close(), b.slab.Close())
}

func (c *Controller) registered() []*Buffers {
	if p := c.buffers.Load(); p != nil {
		return *p
	}
	return nil
}

func (c *Controller) setBuffers(all []*Buffers) { c.buffers.Store(&all) }

// find returns the registered memory in which p lies, and where, or nil.
func (c *Controller) find(p []byte) (*fabric.Memory, int) {
	at := address(p)
	for _, b := range c.registered() {
		all := b.memory.Bytes()
		if off := at - address(all); at >= address(all) && off <= uintptr(len(all)) && uintptr(len(p)) <= uintptr(len(all))-off {
			return b.memory, int(off)
		}
	}
	return nil, 0
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
