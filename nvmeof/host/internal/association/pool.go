package association

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Pool is a controller's buffers on one shard, for data that is not in registered memory. All methods but Close must
// be called in the shard's loop.
type Pool struct {
	Arena  *shard.Arena
	Memory *fabric.Memory // of the arena
	shard  *shard.Shard
	slot   shard.Slot
}

// NewPool maps and registers size bytes of buffers.
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

// Attach must be called before the first Release.
func (p *Pool) Attach() { p.shard.Attach(&p.slot, p) }

// Close frees the memory. It must be called outside the loop, when nothing uses the memory.
func (p *Pool) Close() error {
	err := p.shard.Call(func() {
		for p.Arena.Serve() { // waiters are served so that they learn that their queue is gone
		}
		p.slot.Detach()
	})
	if err != nil {
		return err
	}
	return errors.Join(p.Memory.Close(), p.Arena.Close())
}

// Alloc takes a buffer of at least n bytes from a share, or from the pool's own share if s is nil. If none is
// available, w waits for it.
func (p *Pool) Alloc(s *shard.Share, w *shard.BufferWaiter, n int) (shard.Buffer, bool) {
	if s == nil {
		s = p.Arena.Own()
	}
	b, ok := s.Alloc(n)
	if !ok {
		s.Wait(w, n)
		p.slot.Retry() // it may be available: w waited only because others were first
	}
	return b, ok
}

// Offset returns the offset of a buffer in the memory.
func (p *Pool) Offset(b shard.Buffer) int {
	return int(address(b.Bytes()) - address(p.Arena.Bytes()))
}

// Release returns a buffer. Waiters are served later in the turn.
func (p *Pool) Release(b shard.Buffer) {
	p.Arena.Release(b)
	p.slot.Retry()
}

// Complete, Retry and Flush implement [shard.Consumer].
func (p *Pool) Complete(*rdmatransport.Completion, uint32) {}
func (p *Pool) Retry()                                     { p.Arena.Serve() }
func (p *Pool) Flush()                                     {}
