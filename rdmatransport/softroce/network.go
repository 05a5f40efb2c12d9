package softroce

import (
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// Rate is in bytes per second.
type Rate = rc.Rate

// RateConfig has the parameters of congestion control.
type RateConfig = rc.RateConfig

// Group is what carries the datagrams of one address: sockets, or ports of a [Network].
type Group = udp.Group

// Network is an in-memory network, with faults.
type Network = udp.Network

// Faults are what a [Network] does to packets of one direction.
type Faults = udp.Faults

// NewNetwork returns a network whose faults follow from the seed.
func NewNetwork(seed uint64) *Network { return udp.NewNetwork(seed) }

// An InUseError says that another process has an address, or this one already.
type InUseError = udp.InUseError
