package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Memory is host memory for the data of commands, registered with one protection domain.
type Memory struct {
	bytes    []byte
	readable rdmatransport.MemoryRegion // by the controller: data of writes
	writable rdmatransport.MemoryRegion // by the controller: data of reads
}

// RegisterMemory registers b, which must stay allocated until Close. With windows the region's keys give a controller
// no access: each command binds a window. Without windows there is one key for reading and one for writing, so that a
// controller that received only one of them cannot do the other.
func RegisterMemory(d rdmatransport.Domain, b []byte, windows bool) (*Memory, error) {
	local := rdmatransport.AccessLocalWrite
	if windows {
		region, err := d.Register(b, local)
		if err != nil {
			return nil, err
		}
		return &Memory{b, region, region}, nil
	}
	readable, err := d.Register(b, rdmatransport.AccessRemoteRead)
	if err != nil {
		return nil, err
	}
	writable, err := d.Register(b, local|rdmatransport.AccessRemoteWrite)
	if err != nil {
		return nil, errors.Join(err, readable.Deregister())
	}
	return &Memory{b, readable, writable}, nil
}

// Bytes returns the memory.
func (m *Memory) Bytes() []byte { return m.bytes }

// Close deregisters the memory. No request may be using it.
func (m *Memory) Close() error {
	err := m.writable.Deregister()
	if m.readable != m.writable {
		err = errors.Join(err, m.readable.Deregister())
	}
	return err
}

// region returns the memory region for a command's data.
func (m *Memory) region(write bool) rdmatransport.MemoryRegion {
	if write {
		return m.readable
	}
	return m.writable
}
