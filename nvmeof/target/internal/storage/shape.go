package storage

import (
	"math/bits"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Shape is what hosts are told of a namespace's store.
type Shape struct {
	Info   backend.Info // without the size; see Blocks
	Shift  uint         // log2 of the block size
	Blocks uint64
	Used   uint64 // number of allocated blocks
	// Persists means that reservations can survive a power loss.
	Persists bool
}

// ShapeOf returns the shape of a store that is not open here. All blocks count as used.
func ShapeOf(i backend.Info, persists bool) *Shape {
	shift := uint(bits.TrailingZeros(uint(i.BlockSize)))
	blocks := uint64(i.Size) >> shift
	i.Size = 0
	return &Shape{i, shift, blocks, blocks, persists}
}

// Shape returns the shape of the volume or, while the namespace is away, what is known of it. It returns false if
// nothing is known.
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

// Bytes returns the size in bytes.
func (s *Shape) Bytes() uint64 { return s.Blocks << s.Shift }

// SameToHosts reports whether a host that has identified one of the namespaces need not identify the other.
func (n *Namespace) SameToHosts(o *Namespace) bool {
	a, knownA := n.Shape()
	b, knownB := o.Shape()
	a.Used, b.Used = 0, 0
	for _, i := range []*backend.Info{&a.Info, &b.Info} {
		i.Alignment, i.Volatile, i.Compare, i.Copy = 0, false, false, false // hosts do not see these
	}
	return knownA && knownB && a == b && n.Identity == o.Identity && n.ReadOnly() == o.ReadOnly() &&
		n.Protection() == o.Protection() && n.Reservable() == o.Reservable()
}
