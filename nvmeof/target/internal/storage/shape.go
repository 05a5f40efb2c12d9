package storage

import (
	"math/bits"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Shape is what hosts are told of what a namespace stores.
type Shape struct {
	Info   backend.Info // without the size, which Blocks has
	Shift  uint         // of the block size
	Blocks uint64
	Used   uint64 // blocks that are allocated
	// Persists says that reservations can survive a power loss.
	Persists bool
}

// ShapeOf is the shape of a store that is not open here. All of it counts as used.
func ShapeOf(i backend.Info, persists bool) *Shape {
	shift := uint(bits.TrailingZeros(uint(i.BlockSize)))
	blocks := uint64(i.Size) >> shift
	i.Size = 0
	return &Shape{i, shift, blocks, blocks, persists}
}

// Shape is that of the volume or, while the namespace is away, what is known of it. It reports
// false where nothing is known.
func (n *Namespace) Shape() (Shape, bool) {
	v := n.Volume
	switch {
	case v != nil:
		s := Shape{v.Info, v.Shift, v.Blocks(), v.Used(), v.Reservations.Persists()}
		s.Info.Size = 0
		return s, true
	case n.Known != nil:
		return *n.Known, true
	}
	return Shape{}, false
}

// Bytes is the size.
func (s *Shape) Bytes() uint64 { return s.Blocks << s.Shift }

// SameToHosts reports whether a host that has identified one namespace need not identify the
// other.
func (n *Namespace) SameToHosts(o *Namespace) bool {
	a, knownA := n.Shape()
	b, knownB := o.Shape()
	a.Used, b.Used = 0, 0
	for _, i := range []*backend.Info{&a.Info, &b.Info} {
		i.Alignment, i.Volatile, i.Compare, i.Copy = 0, false, false, false // are not told
	}
	return knownA && knownB && a == b && n.Identity == o.Identity && n.ReadOnly() == o.ReadOnly() &&
		n.Protection() == o.Protection() && n.Reservable() == o.Reservable()
}
