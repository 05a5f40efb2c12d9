package shard

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// PageSize is the alignment of slabs and arena buffers in bytes. It suffices for direct I/O on any device.
const PageSize = 4096

// A Slab is memory outside the Go heap: its address does not change and the garbage collector does not scan it.
type Slab struct {
	mem []byte
}

// NewSlab maps at least size bytes of zeroed memory, rounded up to whole pages.
func NewSlab(size int) (*Slab, error) {
	if size <= 0 {
		return nil, fmt.Errorf("%d bytes of buffers: at least one is needed", size)
	}
	size = (size + PageSize - 1) &^ (PageSize - 1)
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of buffers: %w", size, err)
	}
	return &Slab{mem: mem}, nil
}

// Bytes returns the slab's memory.
func (s *Slab) Bytes() []byte { return s.mem }

// Close unmaps the memory. Nothing may refer to it any more, registrations included. Repeated calls do nothing.
func (s *Slab) Close() error {
	if s == nil || s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return unix.Munmap(mem)
}
