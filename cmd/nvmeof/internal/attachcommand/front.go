package attachcommand

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/attach"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A front is an NBD server that listens from the moment on at which it has a disk.
type front struct {
	cfg    nbd.Config
	server atomic.Pointer[nbd.Server] // nil: not yet
}

// Publish implements [attach.FrontEnd].
func (f *front) Publish(disks []attach.Disk) error {
	if s := f.server.Load(); s != nil {
		return s.Publish(disks)
	}
	s, err := nbd.Listen(f.cfg, disks...)
	if err == nil {
		f.server.Store(s)
	}
	return err
}

// URI and Usage implement [attach.FrontEnd]; a disk has been published before.
func (f *front) URI(d attach.Disk) string     { return f.server.Load().URI(d) }
func (f *front) Usage(d attach.Disk) []string { return f.server.Load().Usage(d) }

// Close implements [attach.FrontEnd].
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
