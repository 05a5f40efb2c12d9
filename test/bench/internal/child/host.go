package child

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// HostSpec configures a host.
type HostSpec struct {
	Addr, Target netip.Addr
	Shards       int
	QueueSize    int
	Alone        bool // packets are sent and received one by one, without GSO and GRO
	Buffers      int  // bytes of memory for data
	Polling      nvmeof.Polling
	Paths        bool // it connects as nvmeof connect does, by package multipath
	Unmeasured   bool // with Paths: it counts no requests
	Scraped      bool // with Paths: its metrics are read each second
}

// Host is the service of [RoleHost].
type Host struct {
	closers
	spec       HostSpec
	host       *host.Host
	controller *host.Controller
	namespaces map[int]backend.Store
	buffers    interface{ Bytes() []byte }
	crowd      *crowd
}

// Open starts the host, without a connection.
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

// Connect connects one controller, with an I/O queue for each shard, and opens its namespaces.
func (h *Host) Connect(_ None, _ *None) (err error) {
	ctx := context.Background()
	h.namespaces = map[int]backend.Store{}
	if h.spec.Paths {
		return h.connectPaths(ctx)
	}
	h.controller, err = h.host.Connect(ctx, host.Options{Traddr: h.spec.Target, NQN: nqn, QueueSize: h.spec.QueueSize})
	if err != nil {
		return err
	}
	ids, err := h.controller.Namespaces(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if h.namespaces[int(id)], err = h.controller.Namespace(ctx, id); err != nil {
			return err
		}
	}
	h.buffers, err = h.controller.NewBuffers(h.spec.Buffers)
	return err
}

// connectPaths connects by package multipath. It opens only the namespace in memory.
func (h *Host) connectPaths(ctx context.Context) error {
	s, err := multipath.Connect(ctx, multipath.Config{NQN: nqn, Unmeasured: h.spec.Unmeasured, Paths: []multipath.PathConfig{{
		Host: h.host, Options: host.Options{Traddr: h.spec.Target, NQN: nqn, QueueSize: h.spec.QueueSize},
	}}})
	if err != nil {
		return err
	}
	h.add(s.Close)
	if h.spec.Scraped {
		all := func() []metrics.HostSubsystem { return []metrics.HostSubsystem{{Measures: s.Measure()}} }
		h.add(scrape(metrics.Handler(nil, metrics.NewHost(metrics.HostConfig{Subsystems: all}))))
	}
	n, err := s.Namespace(ctx, Memory)
	if err != nil {
		return err
	}
	h.namespaces[Memory] = n
	h.buffers, err = s.NewBuffers(h.spec.Buffers)
	return err
}

// Allocs returns how many objects the process has ever allocated.
func (h *Host) Allocs(_ None, n *uint64) error {
	*n = mallocs()
	return nil
}

// LoadSpec is a load of one namespace, or of each of several.
type LoadSpec struct {
	Namespace int // the first
	More      int // number of further namespaces
	Job       bench.Job
}

// Load loads the namespaces, with a loop on each shard for each of them.
func (h *Host) Load(spec LoadSpec, sample *Sample) error {
	for i := range 1 + spec.More {
		if h.namespaces[spec.Namespace+i] == nil {
			return fmt.Errorf("namespace %d is not there", spec.Namespace+i)
		}
	}
	all := h.buffers.Bytes()
	results := make([]*bench.Result, h.spec.Shards*(1+spec.More))
	each := len(all) / len(results)
	err := side(len(results), func(i int) (err error) {
		ns := h.namespaces[spec.Namespace+i/h.spec.Shards]
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

// FirstSpec says how often something is done once, and after what pause.
type FirstSpec struct {
	Times int
	Pause time.Duration
}

// First measures how long a single read takes after a pause, in which both ends went to sleep. It returns the median.
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
