package host

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Buffers is memory that a controller's data moves into and out of without a
// copy, page aligned and outside the Go heap.
type Buffers struct {
	controller *Controller
	slab       *shard.Slab // nil: the memory is the caller's
	memory     *fabric.Memory
}

// NewBuffers maps and registers at least size bytes.
func (c *Controller) NewBuffers(size int) (*Buffers, error) {
	slab, err := shard.NewSlab(size)
	if err != nil {
		return nil, err
	}
	b, err := c.register(slab.Bytes(), slab)
	if err != nil {
		return nil, errors.Join(err, slab.Close())
	}
	return b, nil
}

// ShareBuffers registers memory that several controllers use: whole pages outside the
// Go heap, which stay mapped until Close or Disconnect has returned.
func (c *Controller) ShareBuffers(mem []byte) (*Buffers, error) { return c.register(mem, nil) }

func (c *Controller) register(mem []byte, slab *shard.Slab) (*Buffers, error) {
	c.memory.Lock()
	defer c.memory.Unlock()
	if c.freed {
		return nil, ErrClosed
	}
	memory, err := fabric.RegisterMemory(c.domain, mem, c.windows)
	if err != nil {
		return nil, err
	}
	b := &Buffers{c, slab, memory}
	c.setBuffers(append(slices.Clone(c.registered()), b))
	return b, nil
}

// Bytes is the memory.
func (b *Buffers) Bytes() []byte { return b.memory.Bytes() }

// Close unmaps the memory, unless it is shared. No request may be using it.
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
	err := b.memory.Close()
	if b.slab != nil {
		err = errors.Join(err, b.slab.Close())
	}
	return err
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
