package gateway

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

const (
	// loadUnit is what a load is counted in: a command is one, and so is each 16 KiB of its data.
	// So 4 KiB at 100,000 IOPS weigh as much as 1.2 GB/s in large commands do, about.
	loadUnit = 16 << 10
	// loadEvery is how often the counters are read, and loadHalf after what time half of a load
	// that has ended is forgotten.
	loadEvery = 5 * time.Second
	loadHalf  = 10 * time.Second
)

// Loads are how much I/O each ANA group has that is served here: how often loadUnit, each second.
type loads struct {
	every time.Duration        // loadEvery, but in tests; constant
	at    time.Time            // when counters were read last
	units map[group.ID]uint64  // then
	rates map[group.ID]float64 // smoothed
	mu    sync.Mutex           // guards what follows
	now   map[group.ID]uint64  // what is published

	silent atomic.Bool // an image that is served here does not answer
}

// measure reads the counters of the target until ctx ends.
func (g *Gateway) measure(ctx context.Context) {
	every := time.NewTicker(g.loads.every)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-every.C:
			m := g.target.Measure()
			g.loads.add(at, unitsOf(&m, g.owned.Serves))
			g.loads.silent.Store(silentImage(&m, g.owned.Serves))
			g.sizes.measured(at, &m, g.owned.Serves)
		}
	}
}

// silentImage reports whether an image that is served does not answer.
func silentImage(m *target.Measures, served func(capsule.ANAGroup) bool) bool {
	return slices.ContainsFunc(m.Subsystems, func(s target.SubsystemMeasures) bool {
		return slices.ContainsFunc(s.Namespaces, func(n target.NamespaceMeasures) bool { return n.Silent && n.Kind == "rbd" && served(n.Group) })
	})
}

// unitsOf are the I/O that the groups have had.
func unitsOf(m *target.Measures, served func(capsule.ANAGroup) bool) map[group.ID]uint64 {
	all := map[group.ID]uint64{}
	for i := range m.Subsystems {
		for j := range m.Subsystems[i].Namespaces {
			n := &m.Subsystems[i].Namespaces[j]
			if !served(n.Group) {
				continue
			}
			read, written := n.Bytes()
			units := (read + written) / loadUnit
			for _, k := range n.Kinds() {
				units += k.Command.Count()
			}
			all[group.ID(n.Group)] += units
		}
	}
	return all
}

// add takes a reading. A group counts from its second one on, since part of the time before the first
// may have been another gateway's; and one whose counters went back, with a namespace, has the
// load that it had.
func (l *loads) add(at time.Time, units map[group.ID]uint64) {
	passed := at.Sub(l.at)
	rates, now := map[group.ID]float64{}, map[group.ID]uint64{}
	for id, n := range units {
		before, known := l.units[id]
		if !known || passed <= 0 {
			continue
		}
		rate, had := l.rates[id]
		switch latest := float64(n-min(before, n)) / passed.Seconds(); {
		case !had:
			rate = latest
		case n >= before:
			rate += (latest - rate) * (1 - math.Exp2(-float64(passed)/float64(loadHalf)))
		}
		rates[id], now[id] = rate, uint64(rate)
	}
	l.at, l.units, l.rates = at, units, rates
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now
}

// published are the loads of now. They are not changed any more.
func (l *loads) published() map[group.ID]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}
