package multipath

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Buffers is memory that data moves into and out of without a copy on every path,
// page aligned and outside the Go heap.
type Buffers struct {
	sub  *Subsystem
	slab *shard.Slab
	mem  atomic.Pointer[[]byte] // what Bytes returns
}

// NewBuffers maps at least size bytes and registers them with each controller, also
// with those to come.
func (s *Subsystem) NewBuffers(size int) (*Buffers, error) {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if s.isClosed() {
		return nil, ErrClosed
	}
	slab, err := shard.NewSlab(size)
	if err != nil {
		return nil, err
	}
	b := &Buffers{sub: s, slab: slab}
	mem := slab.Bytes()
	b.mem.Store(&mem)
	for _, p := range s.Paths() {
		for _, ses := range p.withMemory() {
			if err := b.register(ses); err != nil && ses.ctrl.Err() == nil {
				return nil, errors.Join(err, b.free())
			}
		}
	}
	s.buffers[b] = struct{}{}
	return b, nil
}

// share makes all memory known to a controller that was just connected, and what comes
// after it.
func (s *Subsystem) share(ses *session) error {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.mu.Lock()
	ses.path.sessions = append(ses.path.sessions, ses)
	s.mu.Unlock()
	for b := range s.buffers {
		if err := b.register(ses); err != nil {
			return err
		}
	}
	return nil
}

func (s *Subsystem) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// register makes the memory known to a controller. Under Subsystem.sharing.
func (b *Buffers) register(ses *session) error {
	hb, err := ses.ctrl.ShareBuffers(b.slab.Bytes())
	if err == nil {
		ses.buffers[b] = hb
	}
	return err
}

// Bytes is the memory, nil once Close or [Subsystem.Close] has unmapped it. Access to a slice of it
// after that ends the program, by a fault that recover does not catch.
func (b *Buffers) Bytes() []byte { return *b.mem.Load() }

// Close unmaps the memory. No request may be using it. Repeated calls do nothing.
func (b *Buffers) Close() error {
	b.sub.sharing.Lock()
	defer b.sub.sharing.Unlock()
	delete(b.sub.buffers, b)
	return b.free()
}

// free takes the memory from all controllers. One that was lost may be about to do
// so itself. Under Subsystem.sharing.
func (b *Buffers) free() error {
	b.mem.Store(new([]byte))
	var errs []error
	for _, p := range b.sub.Paths() {
		errs = append(errs, p.forget(b))
	}
	return errors.Join(append(errs, b.slab.Close())...)
}

// freeBuffers is for the end, when no controller is left.
func (s *Subsystem) freeBuffers() error {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	var errs []error
	for b := range s.buffers {
		errs = append(errs, b.free())
	}
	clear(s.buffers)
	return errors.Join(errs...)
}

// withMemory are the path's sessions whose controllers know memory.
func (p *Path) withMemory() []*session {
	p.sub.mu.Lock()
	defer p.sub.mu.Unlock()
	return slices.Clone(p.sessions)
}

// forget takes memory from the path's controller.
func (p *Path) forget(b *Buffers) error {
	var errs []error
	for _, ses := range p.withMemory() {
		if hb := ses.buffers[b]; hb != nil {
			delete(ses.buffers, b)
			errs = append(errs, hb.Close())
		}
	}
	return errors.Join(errs...)
}
