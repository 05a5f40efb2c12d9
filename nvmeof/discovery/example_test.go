package discovery_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// Read the log of a discovery controller once, over a network in memory.
func ExampleRun() {
	network, at := softroce.NewNetwork(1), netip.MustParseAddrPort("192.0.2.1:4420")
	open := func(addr netip.Addr) *softroce.Device {
		return must(softroce.Open(softroce.Config{Addr: addr, Network: network}))
	}
	targets, hosts := open(at.Addr()), open(netip.MustParseAddr("192.0.2.2"))
	defer targets.Close()
	defer hosts.Close()
	t := must(target.New(target.Config{Device: targets}))
	defer t.Close()
	must(t.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2014-08.org.example:disk"})).AllowAnyHost(true)
	must(t.Listen(at))
	h := must(host.New(host.Config{Device: hosts}))
	defer h.Close()

	dialer := &discovery.HostDialer{Host: func(context.Context, discovery.Endpoint) (*host.Host, host.Options, error) {
		return h, host.Options{}, nil
	}}
	err := discovery.Run(context.Background(), discovery.Config{Event: func(e discovery.Event) {
		if e.Kind == discovery.Added {
			fmt.Println(e.Record.NQN(), "at", e.Record.Traddr(), e.Record.Trsvcid())
		}
	}}, dialer, discovery.Endpoint{Addr: at, NQN: nvmeof.DiscoveryNQN})
	fmt.Println(err)
	// Output:
	// nqn.2014-08.org.example:disk at 192.0.2.1 4420
	// <nil>
}
