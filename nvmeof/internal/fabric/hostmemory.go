package fabric

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Memory is host memory that commands' data can lie in, registered with one
// protection domain.
type Memory struct {
	bytes    []byte
	readable rdmatransport.MemoryRegion // by the controller: data of writes
	writable rdmatransport.MemoryRegion // by the controller: data of reads
}

// RegisterMemory registers b, which must stay allocated until Close. With
// windows the keys themselves allow a controller nothing: each command opens a
// window. Without, there is one key for reading and one for writing, so that a
// controller that only ever gets one of them cannot do the other.
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

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.bytes }

// Close kills the keys. No request may be using the memory.
func (m *Memory) Close() error {
	err := m.writable.Deregister()
	if m.readable != m.writable {
		err = errors.Join(err, m.readable.Deregister())
	}
	return err
}

// region is the registration under which a command's data moves.
func (m *Memory) region(write bool) rdmatransport.MemoryRegion {
	if write {
		return m.readable
	}
	return m.writable
}
