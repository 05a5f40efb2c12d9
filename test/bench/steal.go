package main

import (
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

const (
	// stolenShare is the share of a processor that other machines may have meanwhile.
	stolenShare = 0.02
	// stolenTries is how often a measurement is made at most.
	stolenTries = 4
	// stolenOften is the share of the measurements that may exceed stolenShare.
	stolenOften = 0.10
)

// A tally counts measurements that other machines on the same processors have disturbed: when the hypervisor takes the
// processor of one end away, the other end waits too.
type tally struct{ taken, disturbed int }

func (t *tally) share() float64 { return float64(t.disturbed) / float64(max(1, t.taken)) }

// undisturbed repeats a measurement, up to stolenTries times in all, while it is disturbed. It returns the least
// disturbed one.
func (t *tally) undisturbed(run func() (child.Sample, error)) (best child.Sample, err error) {
	least := time.Duration(-1)
	t.taken++
	for range stolenTries {
		began := time.Now()
		before, err := process.Stolen()
		if err != nil {
			return best, err
		}
		s, err := run()
		if err != nil {
			return best, err
		}
		after, err := process.Stolen()
		if err != nil {
			return best, err
		}
		stolen := after - before
		if least < 0 || stolen < least {
			least, best = stolen, s
		}
		if stolen <= process.Tick || stolen.Seconds() <= stolenShare*time.Since(began).Seconds() {
			return best, nil
		}
	}
	t.disturbed++
	return best, nil
}
