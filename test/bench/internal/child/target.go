package child

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/capture"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const nqn = "nqn.2026-11.org.example:bench"

// Namespaces of a target.
const (
	Memory = 1
	File   = 2
	Image  = 2 // of a target without a file; further images follow
)

// TargetSpec configures a target.
type TargetSpec struct {
	Addr       netip.Addr
	Shards     int
	InCapsule  int   // see target.Config
	QueueDepth int   // see target.Config
	Memory     int64 // bytes of the namespace in memory
	File       string
	Images     []string // Ceph images
	Conf       string   // the Ceph cluster's configuration file
	Polling    nvmeof.Polling
	Unmeasured bool   // see target.Config
	Scraped    bool   // its metrics are read each second
	Captured   bool   // its packets are captured, as nvmeof capture does by default
	Events     string // file that records events; empty: none
}

// Target is the service of [RoleTarget].
type Target struct{ closers }

// Start starts to serve.
func (t *Target) Start(spec TargetSpec, _ *None) error {
	needProcessors(spec.Shards)
	device, err := softroce.Open(softroce.Config{Addr: spec.Addr, Shards: spec.Shards})
	if err != nil {
		return err
	}
	t.add(device.Close)
	return serve(&t.closers, device, spec)
}

// Allocs returns how many objects the process has ever allocated.
func (t *Target) Allocs(_ None, n *uint64) error {
	*n = mallocs()
	return nil
}

// serve starts a target on a device.
func serve(c *closers, device rdmatransport.Device, spec TargetSpec) error {
	stores, err := spec.open(c)
	if err != nil {
		return err
	}
	var happened *events.Log
	if spec.Events != "" {
		if happened, err = events.Open(spec.Events, events.Config{}); err != nil {
			return err
		}
		c.add(happened.Close)
	}
	t, err := target.New(target.Config{
		Events: happened, Device: device, Shards: spec.Shards, InCapsule: spec.InCapsule, QueueDepth: spec.QueueDepth, Polling: spec.Polling, Unmeasured: spec.Unmeasured,
	})
	if err != nil {
		return err
	}
	c.add(t.Close)
	if spec.Scraped {
		devices := func() []rdmatransport.Device { return []rdmatransport.Device{device} }
		c.add(scrape(metrics.Handler(nil, metrics.NewTarget(metrics.TargetConfig{Target: t, Devices: devices}), metrics.NewSoftroce(devices))))
	}
	if spec.Captured {
		c.add(captured(device))
	}
	s, err := t.AddSubsystem(target.SubsystemConfig{NQN: nqn})
	if err != nil {
		return err
	}
	s.AllowAnyHost(true) // no other machine reaches a loopback address
	for _, store := range stores {
		if _, err := s.AddNamespace(target.NamespaceConfig{Store: store}); err != nil {
			return err
		}
	}
	_, err = t.Listen(netip.AddrPortFrom(spec.Addr, nvmeof.DefaultPort))
	return err
}

// scrape reads the metrics each second, as a monitoring system would at most, until the returned function is called.
func scrape(handler http.Handler) (end func() error) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, metrics.Path, nil))
		}
	}()
	return func() error {
		close(stop)
		<-ended
		return nil
	}
}

// captured captures the packets of a device, and discards them, until the returned function is called.
func captured(device rdmatransport.Device) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { // ends with ctx
		sources := []capture.Source{{Name: "bench", Device: device.(rdmatransport.Capturer)}}
		ended <- capture.Stream(ctx, capture.Config{Snap: capture.DefaultSnap, Sources: func() []capture.Source { return sources },
			Pairs: func() []capture.Pair { return nil }}, func([]byte) error { return nil })
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// open opens the stores in the order of their namespaces.
func (s *TargetSpec) open(c *closers) ([]backend.Store, error) {
	m, err := memory.New(memory.Config{Size: s.Memory})
	if err != nil {
		return nil, err
	}
	c.add(m.Close)
	fill(m.Memory())
	stores := []backend.Store{m}
	var client *rbd.Client
	if len(s.Images) > 0 { // one client for all images, as a gateway has
		if client, err = rbd.Connect(rbd.ClientConfig{Conf: s.Conf}); err != nil {
			return nil, err
		}
		c.add(client.Close)
	}
	for _, name := range s.Images {
		i, err := rbd.Open(name, rbd.Config{Client: client})
		if err != nil {
			return nil, err
		}
		c.add(i.Close)
		stores = append(stores, i)
	}
	if s.File == "" {
		return stores, nil
	}
	f, err := file.Open(s.File, file.Config{LockedThreads: true})
	if err != nil {
		return nil, err
	}
	c.add(f.Close)
	return append(stores, f), nil
}

// fill gives each page of memory its own contents, as in a store that was used.
func fill(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = byte(i >> 12)
	}
}
