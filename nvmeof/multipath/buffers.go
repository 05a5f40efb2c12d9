package multipath

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// Buffers is page-aligned memory outside the Go heap, which is read and written without a copy on every path.
type Buffers struct {
	sub  *Subsystem
	slab *shard.Slab
	mem  atomic.Pointer[[]byte] // returned by Bytes
}

// NewBuffers maps at least size bytes and registers them with each controller, including those connected later.
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

// share registers all buffers, and those to come, with a controller that was just connected.
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

// register registers the memory with a controller. Subsystem.sharing must be held.
func (b *Buffers) register(ses *session) error {
	hb, err := ses.ctrl.ShareBuffers(b.slab.Bytes())
	if err == nil {
		ses.buffers[b] = hb
	}
	return err
}

// Bytes returns the memory, or nil once Close or [Subsystem.Close] has unmapped it. Access to a slice of it after that
// ends the program with a fault that recover does not catch.
func (b *Buffers) Bytes() []byte { return *b.mem.Load() }

// Close unregisters and unmaps the memory. No request may be using it. Repeated calls do nothing.
func (b *Buffers) Close() error {
	b.sub.sharing.Lock()
	defer b.sub.sharing.Unlock()
	delete(b.sub.buffers, b)
	return b.free()
}

// free unregisters the memory from all controllers, of which a lost one may be doing the same, and unmaps it.
// Subsystem.sharing must be held.
func (b *Buffers) free() error {
	b.mem.Store(new([]byte))
	var errs []error
	for _, p := range b.sub.Paths() {
		errs = append(errs, p.forget(b))
	}
	return errors.Join(append(errs, b.slab.Close())...)
}

// freeBuffers frees all buffers when no controller is left.
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

// withMemory returns the path's sessions with whose controllers buffers are registered.
func (p *Path) withMemory() []*session {
	p.sub.mu.Lock()
	defer p.sub.mu.Unlock()
	return slices.Clone(p.sessions)
}

// forget unregisters memory from the path's controllers.
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
