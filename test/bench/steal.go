package main

import (
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
)

const (
	// stolenShare is how much of a processor other machines may have meanwhile.
	stolenShare = 0.02
	// stolenTries is how often a measurement is made at most.
	stolenTries = 4
	// stolenOften is how many of the measurements that count may exceed stolenShare.
	stolenOften = 0.10
)

// A tally counts measurements that were disturbed by other machines on the same
// processors: when the hypervisor takes one away, the one at the other end waits too.
type tally struct{ taken, disturbed int }

func (t *tally) share() float64 { return float64(t.disturbed) / float64(max(1, t.taken)) }

// undisturbed makes a measurement again, a few times at most, when it was disturbed.
// What counts is the least disturbed one.
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
