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
	// loadUnit is the number of bytes that count as one unit of load; each command counts as another one.
	// So 4 KiB at 100,000 IOPS weigh about as much as 1.2 GB/s in large commands.
	loadUnit = 16 << 10
	// loadEvery is the interval at which the counters are read. After loadHalf the smoothed load has
	// followed half of a change.
	loadEvery = 5 * time.Second
	loadHalf  = 10 * time.Second
)

// Loads are the units of load per second of each ANA group that is served here.
type loads struct {
	every time.Duration        // loadEvery, except in tests; constant
	at    time.Time            // when counters were read last
	units map[group.ID]uint64  // at that time
	rates map[group.ID]float64 // smoothed
	mu    sync.Mutex           // guards what follows
	now   map[group.ID]uint64  // published; the map is not modified

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
		return slices.ContainsFunc(s.Namespaces, func(n target.NamespaceMeasures) bool { return isSilentImage(&n, served) })
	})
}

func isSilentImage(n *target.NamespaceMeasures, served func(capsule.ANAGroup) bool) bool {
	return n.Silent && n.Kind == "rbd" && served(n.Group)
}

// unitsOf returns the units of load that each group that is served has had.
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

// add adds a reading of the counters. A group counts from its second reading, since another gateway may have
// served it for part of the interval before the first. A group whose counters have gone back, because a
// namespace was removed, keeps its load.
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

// published returns the current loads. The map is not modified any more.
func (l *loads) published() map[group.ID]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}
