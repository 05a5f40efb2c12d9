package nbd

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Disk is a store to be exported, for example a namespace.
type Disk struct {
	Name        string // short, without spaces, for example the NSID
	Alias       string // second name of the export that never belongs to another disk, for example a UUID; empty: none
	Description string // one line of text
	Store       backend.Store
	// NewMemory allocates page-aligned memory that the store can transfer without a copy. If it is nil, any memory is
	// used.
	NewMemory func(size int) (Memory, error)
}

// Memory is memory for data.
type Memory interface {
	Bytes() []byte
	Close() error // must not be called while the memory is in use
}

// stableName returns the name that never belongs to another disk, if the disk has one.
func (d *Disk) stableName() string { return cmp.Or(d.Alias, d.Name) }
