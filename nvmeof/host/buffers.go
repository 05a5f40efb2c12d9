package host

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Buffers is page-aligned memory outside the Go heap, which a controller reads and writes without a copy.
type Buffers struct {
	domain *association.Domain
	memory *association.Memory
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

// ShareBuffers registers memory that several controllers use. It must be whole pages outside the Go heap, which stay
// mapped until Close or Disconnect has returned.
func (c *Controller) ShareBuffers(mem []byte) (*Buffers, error) { return c.register(mem, nil) }

func (c *Controller) register(mem []byte, slab *shard.Slab) (*Buffers, error) {
	m, err := c.domain.Register(mem, slab)
	if err != nil {
		return nil, err
	}
	return &Buffers{c.domain, m}, nil
}

// Bytes returns the memory, or nil once Close, [Controller.Disconnect] or [Host.Close] has unmapped it. Access to a
// slice of it after that ends the program with a fault that recover does not catch.
func (b *Buffers) Bytes() []byte { return b.domain.Bytes(b.memory) }

// Close unregisters the memory, and unmaps it unless it is shared. No request may be using it. Repeated calls do
// nothing.
func (b *Buffers) Close() error { return b.domain.Drop(b.memory) }
