package rc

import "time"

// A Rate is a rate in bytes per second.
type Rate float64

// over returns the number of bytes sent in the time d.
func (r Rate) over(d time.Duration) float64 { return float64(r) * d.Seconds() }

// Mbit is one megabit per second, the unit in which DCQCN's parameters are given.
const Mbit Rate = 1e6 / 8

// RateConfig holds the parameters of congestion control, named as in DCQCN ("Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015). A zero field takes the default.
type RateConfig struct {
	// CNPInterval is the minimum time between two CNPs sent, and between two reductions unless the round trip is
	// longer. Default 50 us.
	CNPInterval time.Duration
	// Gain is g, the weight of a CNP in alpha, which estimates how much of the time the path is congested: 0 to 1,
	// default 1/256.
	Gain float64
	// AlphaPeriod is the time without a CNP after which alpha decays by the gain. Default 55 us.
	AlphaPeriod time.Duration
	// IncreasePeriod is the time after which the rate is increased: default 55 us, or the round trip if longer.
	// Sending IncreaseBytes has the same effect: default 10 MB.
	IncreasePeriod time.Duration
	IncreaseBytes  int
	// FastRounds is F: the number of increases that go halfway back to the rate before the reduction. Default 5.
	// Later increases are additive, and hyper after HyperRounds. Default 50: then there was no congestion for 3 ms.
	FastRounds, HyperRounds int
	// AdditiveStep is the size of an additive increase of the target; default 40 Mbit, as in the paper. Hyper
	// increase adds HyperStep the first time, twice that the second, and so on; default 40 Mbit.
	AdditiveStep, HyperStep Rate
	// MinRate is the minimum rate. Default 10 Mbit: a packet of 4 KiB takes 3 ms, which retransmission timers
	// tolerate.
	MinRate Rate
	// Ignore counts CNPs but does not obey them, and makes losses shrink windows only. CNPs are still sent.
	Ignore bool
}

func (c *RateConfig) setDefaults() {
	orDefault(&c.CNPInterval, 50*time.Microsecond)
	orDefault(&c.Gain, 1.0/256)
	orDefault(&c.AlphaPeriod, 55*time.Microsecond)
	orDefault(&c.IncreasePeriod, 55*time.Microsecond)
	orDefault(&c.IncreaseBytes, 10_000_000)
	orDefault(&c.FastRounds, 5)
	orDefault(&c.HyperRounds, 50)
	orDefault(&c.AdditiveStep, 40*Mbit)
	orDefault(&c.HyperStep, 40*Mbit)
	orDefault(&c.MinRate, 10*Mbit)
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
