package operation

import (
	"math"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// A Namespace describes a namespace to operations. All but the bar is constant.
type Namespace struct {
	ID     capsule.NSID
	Shift  uint8               // block size is 1 << Shift
	Bar    association.Bar     // blocks commands that have not been sent
	Domain *association.Domain // where registered memory is looked up
	Lanes  *Lanes
}

// blocks rounds a limit in bytes to a number of bytes that one command can transfer.
func (n *Namespace) blocks(limit int) int64 {
	block := int64(1) << n.Shift
	return max(block, min(int64(limit)&^(block-1), math.MaxUint16<<n.Shift))
}

// Limits are the limits of one command of a controller.
type Limits struct {
	Write  int // bytes of data sent by the host
	Read   int // bytes of data sent by the controller
	Zeroes int // bytes of one Write Zeroes
	Verify int // bytes of one Verify
	Trim   int // blocks of one range of Dataset Management
	Parts  int // SGL descriptors of one command
}
