package operation

import (
	"math"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// A Namespace is what operations know of a namespace. It stays as it is but for the bar.
type Namespace struct {
	ID     capsule.NSID
	Shift  uint8               // block size is 1 << Shift
	Bar    association.Bar     // keeps operations away that have not been sent
	Domain *association.Domain // in which memory is looked for
	Lanes  *Lanes
}

// blocks rounds a limit in bytes to what one command can move.
func (n *Namespace) blocks(limit int) int64 {
	block := int64(1) << n.Shift
	return max(block, min(int64(limit)&^(block-1), math.MaxUint16<<n.Shift))
}

// Limits are what one command of a controller covers.
type Limits struct {
	Write  int // bytes whose data we send
	Read   int // bytes whose data the controller sends
	Zeroes int // bytes of one Write Zeroes
	Verify int // bytes of one Verify
	Trim   int // blocks of one range of Dataset Management
	Parts  int // of one command's data
}
