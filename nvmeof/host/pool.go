package host

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A pool is a controller's buffers on one shard, for data that is not in
// registered memory.
type pool struct {
	shard  *shard.Shard
	slot   shard.Slot
	arena  *shard.Arena
	memory *fabric.Memory
}

func newPool(s *shard.Shard, d rdmatransport.Domain, size int, windows bool) (*pool, error) {
	arena, err := shard.NewArena(size)
	if err != nil {
		return nil, err
	}
	memory, err := fabric.RegisterMemory(d, arena.Bytes(), windows)
	if err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	return &pool{shard: s, arena: arena, memory: memory}, nil
}

// attach is called in the loop before anything is released.
func (p *pool) attach() { p.shard.Attach(&p.slot, p) }

// close frees the memory; called from outside the loop when nothing uses it.
func (p *pool) close() error {
	err := p.shard.Call(func() {
		for p.arena.Serve() { // whoever still waits learns that its queue is gone
		}
		p.slot.Detach()
	})
	if err != nil {
		return err
	}
	return errors.Join(p.memory.Close(), p.arena.Close())
}

// offset is where in the memory a buffer lies.
func (p *pool) offset(b shard.Buffer) int {
	return int(address(b.Bytes()) - address(p.arena.Bytes()))
}

// release gives a buffer back; who waits for one is served later in the turn.
func (p *pool) release(b shard.Buffer) {
	p.arena.Release(b)
	p.slot.Retry()
}

// Complete, Retry and Flush implement [shard.Consumer].
func (p *pool) Complete(*rdmatransport.Completion, uint32) {}
func (p *pool) Retry()                                     { p.arena.Serve() }
func (p *pool) Flush()                                     {}
