// Package attach says what namespaces are to a front end, which publishes them as
// disks of this machine: an NBD server, say. It keeps who connects to controllers
// apart from how the machine gets at what they have.
package attach

import "github.com/nvmeof-go/nvmeof/backend"

// A Disk is a namespace to be published.
type Disk struct {
	Name        string // short, without spaces: its namespace identifier, say
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

// A FrontEnd publishes disks. Its methods may be called from any goroutine.
type FrontEnd interface {
	// Publish replaces what is published; the first disk is the default one. Who uses
	// a disk that is not among them goes on with it as it was, or is sent away, as the
	// front end says. Stores of disks that were published may be closed once that fails
	// no more.
	Publish(disks []Disk) error
	// URI is where a published disk is, or empty.
	URI(d Disk) string
	// Usage is what to type to use a disk, a line each.
	Usage(d Disk) []string
	// Close finishes what was begun, as far as that is possible in a few seconds,
	// makes it durable, and ends.
	Close() error
}
