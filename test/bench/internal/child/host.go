package child

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// HostSpec says how a host connects.
type HostSpec struct {
	Addr, Target netip.Addr
	Shards       int
	QueueSize    int
	Alone        bool // packets are sent and received one by one, without GSO and GRO
	Buffers      int  // bytes of memory for data
	Polling      nvmeof.Polling
}

// Host is the service of [RoleHost].
type Host struct {
	closers
	spec       HostSpec
	host       *host.Host
	controller *host.Controller
	namespaces map[int]*host.Namespace
	buffers    *host.Buffers
	crowd      *crowd
}

// Open starts the host. It connects nothing.
func (h *Host) Open(spec HostSpec, _ *None) error {
	needProcessors(spec.Shards)
	device, err := softroce.Open(softroce.Config{Addr: spec.Addr, Shards: spec.Shards, NoOffload: spec.Alone})
	if err != nil {
		return err
	}
	h.add(device.Close)
	return h.open(device, spec)
}

func (h *Host) open(device rdmatransport.Device, spec HostSpec) (err error) {
	h.spec = spec
	if h.host, err = host.New(host.Config{Device: device, Shards: spec.Shards, Polling: spec.Polling}); err != nil {
		return err
	}
	h.add(h.host.Close)
	return nil
}

// Connect connects one controller, with an I/O queue for each shard, and opens its
// namespaces.
func (h *Host) Connect(_ None, _ *None) (err error) {
	ctx := context.Background()
	h.controller, err = h.host.Connect(ctx, host.Options{Traddr: h.spec.Target, NQN: nqn, QueueSize: h.spec.QueueSize})
	if err != nil {
		return err
	}
	ids, err := h.controller.Namespaces(ctx)
	if err != nil {
		return err
	}
	h.namespaces = map[int]*host.Namespace{}
	for _, id := range ids {
		if h.namespaces[int(id)], err = h.controller.Namespace(ctx, id); err != nil {
			return err
		}
	}
	h.buffers, err = h.controller.NewBuffers(h.spec.Buffers)
	return err
}

// Allocs counts what the process ever allocated.
func (h *Host) Allocs(_ None, n *uint64) error {
	*n = mallocs()
	return nil
}

// LoadSpec is one load of one namespace.
type LoadSpec struct {
	Namespace int
	Job       bench.Job
}

// Load loads a namespace, with a loop on each shard.
func (h *Host) Load(spec LoadSpec, sample *Sample) error {
	ns := h.namespaces[spec.Namespace]
	if ns == nil {
		return errors.New("the namespace is not there")
	}
	all := h.buffers.Bytes()
	each := len(all) / h.spec.Shards
	results := make([]*bench.Result, h.spec.Shards)
	err := side(h.spec.Shards, func(i int) (err error) {
		results[i], err = bench.Run(context.Background(), ns, all[i*each:][:each], spec.Job, nil)
		return err
	})
	if err != nil {
		return err
	}
	*sample = sum(results)
	return nil
}

// Verify writes for a moment, and compares what it reads back.
func (h *Host) Verify(spec LoadSpec, _ *None) error {
	spec.Job.Verify = true
	_, err := bench.Run(context.Background(), h.namespaces[spec.Namespace], h.buffers.Bytes(), spec.Job, nil)
	return err
}

// FirstSpec says how often, and after what pause, something is done once.
type FirstSpec struct {
	Times int
	Pause time.Duration
}

// First is how long a single read takes after a pause in which both ends went to
// sleep: the median.
func (h *Host) First(spec FirstSpec, sample *Sample) error {
	ns, err := h.controller.Namespace(context.Background(), capsule.NSID(Memory))
	if err != nil {
		return err
	}
	buffer := h.buffers.Bytes()[:4096]
	*sample, err = repeat(spec, func() error {
		_, err := ns.ReadAt(buffer, 0)
		return err
	})
	return err
}
