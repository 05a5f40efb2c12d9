package provider

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestRateConfig checks that each parameter of the option sets a different parameter of softroce.
func TestRateConfig(t *testing.T) {
	var c CongestionFlag
	if err := c.Set("no-ecn,ignore,min-rate=8kbit,cnp-interval=2ns,gain=1/4,alpha-period=3ns,increase-period=4ns,increase-bytes=5,fast-rounds=6,hyper-rounds=7,additive-step=64kbit,hyper-step=72kbit"); err != nil {
		t.Fatal(err)
	}
	want := softroce.RateConfig{Ignore: true, MinRate: 1000, CNPInterval: 2, Gain: 0.25, AlphaPeriod: 3, IncreasePeriod: 4, IncreaseBytes: 5,
		FastRounds: 6, HyperRounds: 7, AdditiveStep: 8000, HyperStep: 9000}
	if r := rateConfig((*config.Congestion)(&c)); r != want {
		t.Errorf("rate control %+v, want %+v", r, want)
	}
}

// TestSource checks that the address of this host is the configured one or the route's, and the error if there is no
// route.
func TestSource(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	if a, err := (&Options{HostTraddr: "192.0.2.1"}).Source(loopback); err != nil || a.String() != "192.0.2.1" {
		t.Errorf("configured: %v, %v", a, err)
	}
	if _, err := (&Options{HostTraddr: "here"}).Source(loopback); err == nil || !strings.Contains(err.Error(), "--host-traddr") {
		t.Errorf("no address: %v", err)
	}
	if a, err := new(Options).Source(loopback); err != nil || !a.IsLoopback() {
		t.Errorf("to this machine: %v, %v", a, err)
	}
	_, err := new(Options).Source(netip.MustParseAddr("fe80::1")) // on no interface
	if err == nil || !IsNoRoute(err) || !strings.Contains(err.Error(), "no route to fe80::1") || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("nowhere: %v", err)
	}
	if IsNoRoute(errors.New("no")) {
		t.Error("any error is that there is no route")
	}
}
