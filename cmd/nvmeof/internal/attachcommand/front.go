package attachcommand

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A front is an NBD server that listens once it has a disk.
type front struct {
	cfg    nbd.Config
	server atomic.Pointer[nbd.Server] // nil: not yet
}

// Publish replaces what is published, as [nbd.Server.Publish] does.
func (f *front) Publish(disks []nbd.Disk) error {
	if s := f.server.Load(); s != nil {
		return s.Publish(disks)
	}
	s, err := nbd.Listen(f.cfg, disks...)
	if err == nil {
		f.server.Store(s)
	}
	return err
}

// Usage is [nbd.Server.Usage]. A disk must have been published before.
func (f *front) Usage(d nbd.Disk) []string { return f.server.Load().Usage(d) }

// URI is [nbd.Server.URI]. A disk must have been published before.
func (f *front) URI(d nbd.Disk) string { return f.server.Load().URI(d) }

// Close closes the server, if there is one.
func (f *front) Close() error {
	if s := f.server.Load(); s != nil {
		return s.Close()
	}
	return nil
}

func (f *front) stats() nbd.Stats {
	if s := f.server.Load(); s != nil {
		return s.Stats()
	}
	return nbd.Stats{}
}
