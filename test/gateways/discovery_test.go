package gateways

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const joins = 10 // of a gateway; it also leaves as often

// newHost returns a host with an address of its own.
func newHost(t *testing.T, n int) *host.Host {
	t.Helper()
	device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(address(n))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	h, err := host.New(host.Config{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// A listing is what the discovery controller of a gateway has reported of the group's subsystem: when each address was
// added and removed.
type listing struct {
	events chan seen
}

type seen struct {
	addr  netip.Addr
	there bool
	at    time.Time
}

// follow follows the discovery log of a gateway, by its asynchronous events.
func follow(t *testing.T, h *host.Host, of *gateway) *listing {
	l := &listing{events: make(chan seen, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() { // ends with the test
		defer close(ended)
		_ = discovery.Run(ctx, discovery.Config{Persistent: true, Depth: -1, Poll: time.Hour, Event: l.note}, &discovery.HostDialer{
			Host: func(context.Context, discovery.Endpoint) (*host.Host, host.Options, error) {
				return h, host.Options{}, nil
			},
		}, discovery.Endpoint{Addr: netip.AddrPortFrom(of.addr, nvmeof.DefaultPort), NQN: nvmeof.DiscoveryNQN})
	}()
	return l
}

func (l *listing) note(e discovery.Event) {
	if e.Kind != discovery.Added && e.Kind != discovery.Removed || e.Record.NQN() != nqn {
		return
	}
	if at, err := e.Record.Addr(); err == nil {
		l.events <- seen{at.Addr(), e.Kind == discovery.Added, time.Now()}
	}
}

// until waits until an address is added or removed, and returns the time of that.
func (l *listing) until(addr netip.Addr, there bool) (time.Time, error) {
	limit := time.After(serveTime)
	for {
		select {
		case e := <-l.events:
			if e.addr == addr && e.there == there {
				return e.at, nil
			}
		case <-limit:
			return time.Time{}, fmt.Errorf("the discovery log does not say that %v is there: %v", addr, there)
		}
	}
}

// registered waits until a gateway knows that it is registered, and returns the time.
func (g *gateway) registered() (time.Time, error) {
	for end := time.Now().Add(serveTime); ; time.Sleep(2 * time.Millisecond) {
		s, err := g.status()
		at := time.Now()
		if err == nil {
			for _, m := range s.Gateways {
				if m.Name == g.name && m.State == "alive" {
					return at, nil
				}
			}
		}
		if at.After(end) {
			return at, fmt.Errorf("%s is not registered: %+v, %v", g.name, s.Gateways, err)
		}
	}
}

// discovery measures how soon the discovery controller of one gateway reports that another has joined or left.
func (s *sheet) discovery(t *testing.T) {
	dir := t.TempDir()
	c := startCluster(t, dir, newStore(t, dir), 3)
	c.configure(t, dir)
	l := follow(t, newHost(t, 100), c.gateways[0])
	last := c.gateways[2]
	if _, err := l.until(last.addr, true); err != nil {
		t.Fatal(err)
	}
	var joined, left []time.Duration
	for range joins {
		began := time.Now()
		last.signal(syscall.SIGTERM)
		if err := last.wait(serveTime); err != nil {
			t.Fatal(err)
		}
		gone, err := l.until(last.addr, false)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, gone.Sub(began))
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		at, err := last.registered()
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.until(last.addr, true)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, max(there.Sub(at), 0))
	}
	s.add(figure{name: "discovery: a gateway is alive to notice and right log at another", times: joined, limit: time.Second})
	s.add(figure{name: "discovery: SIGTERM, which drains, to notice and right log at another", times: left, limit: time.Second})
}
