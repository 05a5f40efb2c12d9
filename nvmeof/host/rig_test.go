package host

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

const testNQN = "nqn.2014-08.org.example:disk"

// A rig is our target with one subsystem, and a host.
type rig struct {
	t      testing.TB
	addr   netip.AddrPort
	target *target.Target
	sub    *target.Subsystem
	host   *Host
	device struct{ host, target rdmatransport.Device }
}

type rigConfig struct {
	host   Config
	target target.Config
	stores []backend.Store
	spin   bool // poll adaptively, as in production
	budget int  // receive budget of both devices
	attrs  func(*rdmatransport.Attrs)
}

// newRig starts both on a loopback network. Everything is closed with the test.
func newRig(t testing.TB, cfg rigConfig) *rig {
	t.Helper()
	n := rdmatest.NewLoopback()
	attrs := rdmatest.Attrs()
	if cfg.attrs != nil {
		cfg.attrs(&attrs)
	}
	open := func(addr string) rdmatransport.Device {
		d, err := n.Open(netip.MustParseAddr(addr), attrs)
		if err != nil {
			t.Fatal(err)
		}
		rdmatest.SetReceiveBudget(d, cfg.budget)
		return d
	}
	return startRig(t, cfg, open("192.0.2.1"), open("192.0.2.2"), netip.MustParseAddrPort("192.0.2.2:4420"))
}

func startRig(t testing.TB, cfg rigConfig, hostDevice, targetDevice rdmatransport.Device, addr netip.AddrPort) *rig {
	t.Helper()
	r := &rig{t: t, addr: addr}
	r.device.host, r.device.target = hostDevice, targetDevice
	cfg.target.Device, cfg.host.Device = targetDevice, hostDevice
	cfg.target.Log = zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	if !cfg.spin {
		cfg.target.Polling, cfg.host.Polling = nvmeof.PollNever, nvmeof.PollNever
	}
	cfg.target.Arena = 8 << 20
	var err error
	if r.target, err = target.New(cfg.target); err != nil {
		t.Fatal(err)
	}
	if r.sub, err = r.target.AddSubsystem(target.SubsystemConfig{NQN: testNQN}); err != nil {
		t.Fatal(err)
	}
	r.sub.AllowAnyHost(true)
	for _, s := range cfg.stores {
		if _, err := r.sub.AddNamespace(target.NamespaceConfig{Store: s}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.target.Listen(addr); err != nil {
		t.Fatal(err)
	}
	if r.host, err = New(cfg.host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	if err := r.host.Close(); err != nil {
		r.t.Errorf("closing the host: %v", err)
	}
	if err := r.target.Close(); err != nil {
		r.t.Errorf("closing the target: %v", err)
	}
	for _, d := range []rdmatransport.Device{r.device.host, r.device.target} {
		if err := d.Close(); err != nil {
			r.t.Errorf("closing a device: %v", err)
		}
	}
}

func (r *rig) options() Options {
	return Options{Traddr: r.addr.Addr(), Trsvcid: r.addr.Port(), NQN: testNQN}
}

func (r *rig) connect(o Options) *Controller {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := r.host.Connect(ctx, o)
	if err != nil {
		r.t.Fatalf("Connect: %v", err)
	}
	return c
}

func (r *rig) namespace(c *Controller) *Namespace {
	r.t.Helper()
	n, err := c.Namespace(context.Background(), 1)
	if err != nil {
		r.t.Fatalf("Namespace: %v", err)
	}
	return n
}

// newStore returns a store in memory that is closed with the test.
func newStore(t testing.TB, size int64, block int) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{Size: size, BlockSize: block})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// pattern fills b so that every 8 bytes have their offset.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + i*7 + i>>8*31)
	}
}
