package provider

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestRateConfig checks that softroce gets each parameter of the option as one of its own.
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
