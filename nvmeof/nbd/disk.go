package nbd

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Disk is a store that is published: a namespace, say.
type Disk struct {
	Name        string // short, without spaces: its namespace identifier, say
	Alias       string // another name for clients, that of a disk for good, as its UUID; empty: none
	Description string // one line for people
	Store       backend.Store
	// NewMemory gives memory from which and to which the store moves data without a
	// copy, page aligned. It may be nil: then any memory will do.
	NewMemory func(size int) (Memory, error)
}

// Memory is memory for data.
type Memory interface {
	Bytes() []byte
	Close() error // nothing may be using it
}

// lasting is the name by which clients do not come to another disk.
func (d *Disk) lasting() string { return cmp.Or(d.Alias, d.Name) }
