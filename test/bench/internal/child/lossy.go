package child

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// LossySpec is a load over a network with faults, which depend on a seed.
type LossySpec struct {
	Seed  uint64
	Loss  float64
	Delay time.Duration // each way
	Job   bench.Job
}

// Lossy is the service of [RoleLossy].
type Lossy struct{ closers }

const (
	lossyMemory = 64 << 20
	lossyMTU    = 9000
)

// Load connects over a new network without loss, and then measures with loss. Both ends poll: otherwise they would
// sleep by timers of the Go runtime, which are late by as much as this network delays.
func (l *Lossy) Load(spec LossySpec, s *Sample) error {
	needProcessors(2)
	network := softroce.NewNetwork(spec.Seed)
	network.PathMTU, network.Merge = lossyMTU, true
	delay := softroce.Faults{Delay: spec.Delay}
	network.Faults = func(netip.Addr, netip.Addr) softroce.Faults { return delay }
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	var devices []*softroce.Device
	h := &Host{}
	defer h.Close()
	for _, a := range addrs {
		d, err := softroce.Open(softroce.Config{Addr: a, Network: network})
		if err != nil {
			return err
		}
		h.add(d.Close)
		devices = append(devices, d)
	}
	if err := serve(&h.closers, devices[0], TargetSpec{Addr: addrs[0], Shards: 1, Memory: lossyMemory, Polling: nvmeof.PollAlways}); err != nil {
		return err
	}
	if err := h.open(devices[1], HostSpec{Target: addrs[0], Shards: 1, Buffers: spec.Job.Depth * spec.Job.BlockSize, Polling: nvmeof.PollAlways}); err != nil {
		return err
	}
	if err := h.Connect(None{}, &None{}); err != nil {
		return err
	}
	network.SetFaults(func(netip.Addr, netip.Addr) softroce.Faults {
		return softroce.Faults{Delay: spec.Delay, Loss: spec.Loss}
	})
	err := h.Load(LoadSpec{Namespace: Memory, Job: spec.Job}, s)
	network.SetFaults(func(netip.Addr, netip.Addr) softroce.Faults { return delay }) // without loss, so that the connection ends in order
	return err
}
