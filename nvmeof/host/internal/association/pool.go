package association

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Pool is a controller's buffers on one shard, for data that is not in registered
// memory. All but Close are called in the shard's loop.
type Pool struct {
	Arena  *shard.Arena
	Memory *fabric.Memory // of the arena
	shard  *shard.Shard
	slot   shard.Slot
}

// NewPool maps and registers buffers of so many bytes together.
func NewPool(s *shard.Shard, d *Domain, size int) (*Pool, error) {
	arena, err := shard.NewArena(size)
	if err != nil {
		return nil, err
	}
	memory, err := fabric.RegisterMemory(d.RDMA, arena.Bytes(), d.Windows)
	if err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	return &Pool{shard: s, Arena: arena, Memory: memory}, nil
}

// Attach comes before anything is released.
func (p *Pool) Attach() { p.shard.Attach(&p.slot, p) }

// Close frees the memory; called from outside the loop when nothing uses it.
func (p *Pool) Close() error {
	err := p.shard.Call(func() {
		for p.Arena.Serve() { // those that still wait learn that their queue is gone
		}
		p.slot.Detach()
	})
	if err != nil {
		return err
	}
	return errors.Join(p.Memory.Close(), p.Arena.Close())
}

// Alloc takes a buffer of at least n bytes of a share; without one w waits for it. Without
// a share it is one of the controller's own.
func (p *Pool) Alloc(s *shard.Share, w *shard.BufferWaiter, n int) (shard.Buffer, bool) {
	if s == nil {
		s = p.Arena.Own()
	}
	b, ok := s.Alloc(n)
	if !ok {
		s.Wait(w, n)
		p.slot.Retry() // it may be there: others waited in front
	}
	return b, ok
}

// Offset is where in the memory a buffer lies.
func (p *Pool) Offset(b shard.Buffer) int {
	return int(address(b.Bytes()) - address(p.Arena.Bytes()))
}

// Release gives a buffer back; who waits for one is served later in the turn.
func (p *Pool) Release(b shard.Buffer) {
	p.Arena.Release(b)
	p.slot.Retry()
}

// Complete, Retry and Flush implement [shard.Consumer].
func (p *Pool) Complete(*rdmatransport.Completion, uint32) {}
func (p *Pool) Retry()                                     { p.Arena.Serve() }
func (p *Pool) Flush()                                     {}
