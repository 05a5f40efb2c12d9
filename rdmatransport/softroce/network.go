package softroce

import (
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// RateConfig holds the parameters of congestion control, named as in DCQCN ("Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015): CNPInterval, Gain, AlphaPeriod, IncreasePeriod, IncreaseBytes, FastRounds,
// HyperRounds, AdditiveStep, HyperStep and MinRate. With Ignore, CNPs are counted but not obeyed. A zero field takes
// the default.
type RateConfig = rc.RateConfig

// Rate is a rate in bytes per second.
type Rate = rc.Rate

// Network is a network in memory that replaces sockets (see [Config].Network). Its fields must be set before the
// first device is opened. Faults returns the [Faults] of one direction, from one address to another. PathMTU is the
// size of the largest IP packet, and ReceiveBuffer the size of a port's buffer, beyond which packets are lost. NoGSO
// and Merge control whether one send is one packet or several. With Manual, time passes only through Advance.
// SetFaults changes the faults later. Faults depend on the seed alone, and time is that of package time, so that
// testing/synctest can fake it.
type Network = udp.Network

// NewNetwork returns a network whose faults are determined by the seed.
func NewNetwork(seed uint64) *Network { return udp.NewNetwork(seed) }

// Faults describes the faults in one direction of a [Network]. Loss, Duplicate, Corrupt, Reorder and Mark are
// probabilities from 0 to 1. Delay and Jitter apply to each packet. The functions Only and Drop select packets.
type Faults = udp.Faults

// NetworkStats counts the faults of a [Network].
type NetworkStats = udp.NetworkStats

// An InUseError says that an address is in use by another process or by this one. Addr is the address, and PID the
// process where it is known.
type InUseError = udp.InUseError

// The parts of [Stats].
type (
	RCCounters = rc.Counters // packets of connections
	CMCounters = cm.Counters // messages of the connection exchange
	UDPStats   = udp.Stats   // datagrams and sockets
)
