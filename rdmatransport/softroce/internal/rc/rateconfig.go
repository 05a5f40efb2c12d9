package rc

import "time"

// A Rate is in bytes per second.
type Rate float64

// over is how many bytes go in a time.
func (r Rate) over(d time.Duration) float64 { return float64(r) * d.Seconds() }

// Mbit is one megabit per second, the unit in which DCQCN's parameters are given.
const Mbit Rate = 1e6 / 8

// RateConfig has the parameters of congestion control, named as in DCQCN
// ("Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015). A zero
// field takes the default.
type RateConfig struct {
	// CNPInterval is the least time between two CNPs sent, and between two
	// reductions made, where the round trip is not longer. Default 50 us.
	CNPInterval time.Duration
	// Gain is g, the weight of a CNP in alpha, which estimates how much of the
	// time the path is congested: 0 to 1, default 1/256.
	Gain float64
	// AlphaPeriod is after how long without a CNP alpha decays by the gain.
	// Default 55 us.
	AlphaPeriod time.Duration
	// IncreasePeriod is after how long the rate rises: default 55 us, or the round
	// trip if that is longer. IncreaseBytes have the same effect once they are sent:
	// default 10 MB.
	IncreasePeriod time.Duration
	IncreaseBytes  int
	// FastRounds is F: so many rises go half the way back to the rate before the
	// reduction. Default 5. Those after them are additive, from HyperRounds on
	// hyper. Default 50: nothing has been congested for 3 ms then.
	FastRounds, HyperRounds int
	// AdditiveStep is by how much the target rises at once; default 40 Mbit, as in
	// the paper. Hyper increase adds HyperStep the first time, twice that the
	// second, and so on; default 40 Mbit.
	AdditiveStep, HyperStep Rate
	// MinRate is the lowest that the rate is reduced to. Default 10 Mbit: a packet
	// of 4 KiB in 3 ms, which retransmission timers bear.
	MinRate Rate
	// Ignore counts CNPs and does not obey them, and lets losses shrink windows
	// alone. CNPs are sent nevertheless.
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
