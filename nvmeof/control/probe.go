package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Probed has the properties of a namespace whose store another target has open.
type Probed struct {
	Info backend.Info
	Mark []byte // mark of the store, if it has one; see [backend.Marked]
	// Pools are those of an image; see [rbd.Store.Pools].
	Pools []string
}

// ProbeStore returns the properties of a store that another target may have open. It changes and locks nothing.
func ProbeStore(n *config.Namespace) (p Probed, err error) {
	switch {
	case n.Memory != nil:
		var s *memory.Store
		if s, err = memory.New(memory.Config{Size: int64(n.Memory.Size), BlockSize: cmp.Or(n.BlockSize, 512)}); err == nil {
			p.Info = s.Info()
			err = s.Close()
		}
	case n.Block != nil:
		p.Info, err = block.Probe(string(n.Block.Path), block.Config{BlockSize: n.BlockSize, ReadOnly: n.Block.ReadOnly, Buffered: n.Block.Buffered})
	case n.RBD != nil:
		return probeImage(n)
	case n.File == nil:
		return p, errNoExport
	default:
		p.Info, err = file.Probe(string(n.File.Path), file.Config{Size: int64(n.File.Size), BlockSize: cmp.Or(n.BlockSize, 512),
			ReadOnly: n.File.ReadOnly, Buffered: n.File.Buffered, Thin: n.File.Thin})
		p.Mark = file.ReadMark(string(n.File.Path))
	}
	return p, err
}

// probeImage opens an image for reading, which needs no lock.
func probeImage(n *config.Namespace) (p Probed, err error) {
	s, err := rbd.Open(n.RBD.Image, rbd.Config{Conf: string(n.RBD.Conf), ID: n.RBD.ID, BlockSize: cmp.Or(n.BlockSize, 512), ReadOnly: true})
	switch {
	case errors.Is(err, fs.ErrNotExist) && n.RBD.Size > 0:
		return p, fmt.Errorf("image %s does not exist yet: the target that serves it creates it", n.RBD.Image)
	case err != nil:
		return p, err
	}
	p.Info, p.Mark, p.Pools = s.Info(), s.Mark(), s.Pools()
	p.Info.ReadOnly = n.RBD.ReadOnly
	p.Info.Deallocate = !n.RBD.ReadOnly
	return p, errors.Join(err, s.Close())
}
