package softroce

import (
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// RateConfig has the parameters of congestion control, named as in DCQCN ("Congestion
// Control for Large-Scale RDMA Deployments", SIGCOMM 2015): CNPInterval, Gain,
// AlphaPeriod, IncreasePeriod, IncreaseBytes, FastRounds, HyperRounds, AdditiveStep,
// HyperStep and MinRate; with Ignore CNPs are counted and not obeyed. A zero field takes
// the default.
type RateConfig = rc.RateConfig

// Rate is in bytes per second.
type Rate = rc.Rate

// Network is a network in memory, which [Config].Network puts in place of sockets. Its
// fields are set before the first device is opened: Faults gives the [Faults] of one
// direction, from one address to another; PathMTU is the largest IP packet, ReceiveBuffer
// what a port holds before packets are lost, NoGSO and Merge whether one send is one
// packet or several; with Manual time passes by Advance alone. SetFaults changes the
// faults later. What befalls a packet follows from the seed, and time is that of package
// time, so that testing/synctest can fake it.
type Network = udp.Network

// NewNetwork returns a network whose faults follow from the seed.
func NewNetwork(seed uint64) *Network { return udp.NewNetwork(seed) }

// Faults are what happens to packets of one direction of a [Network]: the shares, from 0
// to 1, in Loss, Duplicate, Corrupt, Reorder and Mark, Delay and Jitter of each, and the
// functions Only and Drop, which choose among packets.
type Faults = udp.Faults

// NetworkStats count what befell the packets of a [Network].
type NetworkStats = udp.NetworkStats

// An InUseError says that another process has an address, or this one already: the field
// PID, where it is known, and Addr.
type InUseError = udp.InUseError

// The parts of [Stats].
type (
	RCCounters = rc.Counters // packets of connections
	CMCounters = cm.Counters // messages of the connection exchange
	UDPStats   = udp.Stats   // datagrams and sockets
)
