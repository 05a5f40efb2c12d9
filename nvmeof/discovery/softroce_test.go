package discovery

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A site is one of our targets at 192.0.2.N.
type site struct {
	t      *testing.T
	device rdmatransport.Device
	target *target.Target
}

func openDevice(t *testing.T, network *softroce.Network, n int) rdmatransport.Device {
	t.Helper()
	d, err := softroce.Open(softroce.Config{Addr: at(n).Addr.Addr(), Shards: 1, Network: network})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newSite(t *testing.T, network *softroce.Network, n int) *site {
	t.Helper()
	s := &site{t: t, device: openDevice(t, network, n)}
	var err error
	s.target, err = target.New(target.Config{Device: s.device, Polling: nvmeof.PollNever, Arena: 4 << 20, Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))})
	s.must(err)
	_, err = s.target.Listen(at(n).Addr)
	s.must(err)
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) close() {
	s.must(s.target.Close())
	s.must(s.device.Close())
}

func (s *site) add(nqn nvmeof.NQN) {
	s.t.Helper()
	sub, err := s.target.AddSubsystem(target.SubsystemConfig{NQN: nqn})
	s.must(err)
	sub.AllowAnyHost(true)
}

func (s *site) refer(n int) { s.must(s.target.AddReferral(target.Referral{Addr: at(n).Addr})) }

// follow runs discovery from 192.0.2.1 on a host at 192.0.2.9. Its end closes everything but the targets.
func follow(t *testing.T, network *softroce.Network) (w *watch, end func()) {
	t.Helper()
	device := openDevice(t, network, 9)
	h, err := host.New(host.Config{Device: device, Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	dialer := &HostDialer{Host: func(context.Context, Endpoint) (*host.Host, host.Options, error) {
		return h, host.Options{KeepAliveTmo: 2 * time.Second}, nil
	}}
	w = &watch{T: t, fabric: &fabric{}, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		w.ended <- Run(ctx, Config{Persistent: true, Event: w.event, MaxPause: 4 * time.Second}, dialer, at(1))
	}()
	return w, func() {
		cancel()
		for _, err := range []error{<-w.ended, h.Close(), device.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTargets follows two of our targets that refer to each other, and a third one that is not running yet.
func TestTargets(t *testing.T) {
	const a, b, c, d = "nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b", "nqn.2014-08.org.example:c", "nqn.2014-08.org.example:d"
	synctest.Test(t, func(t *testing.T) {
		network := softroce.NewNetwork(1)
		one, two := newSite(t, network, 1), newSite(t, network, 2)
		one.add(a)
		two.add(b)
		one.refer(2)
		two.refer(1)
		one.refer(3)
		w, end := follow(t, network)
		w.after(500*time.Millisecond, "added "+a+"@1", "added "+b+"@2")
		one.add(c)
		w.after(time.Second/10, "added "+c+"@1")
		one.must(one.target.RemoveSubsystem(a))
		w.after(time.Second/10, "removed "+a+"@1")
		for _, x := range []nvmeof.NQN{d + "1", d + "2", d + "3"} {
			two.add(x)
		}
		w.after(time.Second/10, "added "+d+"1@2", "added "+d+"2@2", "added "+d+"3@2")
		w.afterOnly(time.Minute, "unreachable 3")
		three := newSite(t, network, 3)
		three.add(b)
		w.afterLast(10*time.Second, "added "+b+"@3")

		two.close() // its records stay while it is away
		w.afterOnly(10*time.Second, "unreachable 2")
		two = newSite(t, network, 2)
		two.add(d + "1")
		w.after(10*time.Second, "removed "+b+"@2", "removed "+d+"2@2", "removed "+d+"3@2")

		one.must(one.target.RemoveReferral(target.Referral{Addr: at(3).Addr}))
		w.after(time.Second, "removed "+b+"@3")
		if n := len(three.target.Controllers()); n != 0 {
			t.Errorf("%d connections to a target that nobody refers to any more", n)
		}
		end()
		for _, s := range []*site{one, two, three} {
			s.close()
		}
	})
}

// TestNobodyIsThere: an address that does not respond is tried once, for as long as the connection manager does, and
// reported once.
func TestNobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := softroce.NewNetwork(1)
		device := openDevice(t, network, 9)
		h, err := host.New(host.Config{Device: device, Polling: nvmeof.PollNever})
		if err != nil {
			t.Fatal(err)
		}
		dialer := &HostDialer{Host: func(context.Context, Endpoint) (*host.Host, host.Options, error) { return h, host.Options{}, nil }}
		tries := 0
		err = Run(t.Context(), Config{Event: func(e Event) {
			if tries++; e.Kind != Unreachable || !errors.Is(e.Err, rdmatransport.ErrUnreachable) {
				t.Errorf("event %v", e)
			}
		}}, dialer, at(1))
		const want = "192.0.2.1:4420: connecting queue 0: no answer"
		if tries != 1 || !errors.Is(err, rdmatransport.ErrUnreachable) || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "192.0.2.1") != 1 {
			t.Errorf("after %d tries: %v, want once %s", tries, err, want)
		}
		if err := errors.Join(h.Close(), device.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestNoDiscoveryController: the NQN of an NVM subsystem is not accepted as that of a discovery controller.
func TestNoDiscoveryController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := softroce.NewNetwork(1)
		s := newSite(t, network, 1)
		s.add("nqn.2014-08.org.example:a")
		device := openDevice(t, network, 9)
		h, err := host.New(host.Config{Device: device, Polling: nvmeof.PollNever})
		s.must(err)
		dialer := &HostDialer{Host: func(context.Context, Endpoint) (*host.Host, host.Options, error) { return h, host.Options{}, nil }}
		err = Run(t.Context(), Config{Attempts: 1}, dialer, Endpoint{Addr: netip.MustParseAddrPort("192.0.2.1:4420"), NQN: "nqn.2014-08.org.example:a"})
		if err == nil {
			t.Error("a subsystem was taken for a discovery controller")
		}
		t.Log(err)
		s.must(h.Close())
		s.must(device.Close())
		s.close()
	})
}

// TestFirstConnectionHangs: the connection with the controller's unique NQN is used, though the earlier one, with which
// the NQN was read, does not disconnect in order.
func TestFirstConnectionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := softroce.NewNetwork(1)
		s := &site{t: t, device: openDevice(t, network, 1)}
		var err error
		s.target, err = target.New(target.Config{Device: s.device, Polling: nvmeof.PollNever, Arena: 4 << 20, DiscoveryNQN: "nqn.2014-08.org.example:own"})
		s.must(err)
		_, err = s.target.Listen(at(1).Addr)
		s.must(err)
		var queues []rdmatransport.QPN // of the target, as they are spoken to
		network.SetFaults(func(_, to netip.Addr) softroce.Faults {
			return softroce.Faults{Drop: func(packet []byte) bool {
				n := rdmatransport.QPN(binary.BigEndian.Uint32(packet[4:]) & 0xffffff) // of the BTH
				if to != at(1).Addr.Addr() || n <= 1 {
					return false
				}
				if !slices.Contains(queues, n) {
					queues = append(queues, n)
				}
				return len(queues) > 1 && n == queues[0]
			}}
		})
		device := openDevice(t, network, 9)
		h, err := host.New(host.Config{Device: device, Polling: nvmeof.PollNever})
		s.must(err)
		dialer := &HostDialer{Host: func(context.Context, Endpoint) (*host.Host, host.Options, error) { return h, host.Options{}, nil }}
		c, err := dialer.Dial(t.Context(), at(1), true, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Log(t.Context()); err != nil || c.Name() != "nqn.2014-08.org.example:own" || len(queues) != 2 {
			t.Errorf("%v; %s, by %d queues", err, c.Name(), len(queues))
		}
		for _, err := range []error{c.Close(), h.Close(), device.Close()} {
			s.must(err)
		}
		s.close()
	})
}

// TestUniqueName: a persistent connection uses the controller's unique NQN if the controller accepts it.
func TestUniqueName(t *testing.T) {
	s := &hostSession{&host.Controller{}}
	id := s.Identify()
	if s.Name() != "" || s.Notices() {
		t.Errorf("name %q, notices %v of a controller that says nothing", s.Name(), s.Notices())
	}
	id.SubNQN, id.OAES = capsule.MakeNQNField("nqn.2014-08.org.example:own"), capsule.EventDiscoveryChange
	if s.Name() != "nqn.2014-08.org.example:own" || !s.Notices() {
		t.Errorf("name %q, notices %v", s.Name(), s.Notices())
	}
}
