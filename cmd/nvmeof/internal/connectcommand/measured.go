package connectcommand

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/keeper"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// measured is the current keeper, whose counters are served. It changes when the command connects again.
type measured struct {
	keeper atomic.Pointer[keeper.Keeper] // nil: none yet
}

func (m *measured) source(version string) scrape.Source {
	return scrape.Source{
		Version: version,
		Subsystems: func() (all []metrics.HostSubsystem) {
			if k := m.keeper.Load(); k != nil {
				for _, s := range k.Measure() {
					all = append(all, metrics.HostSubsystem(s))
				}
			}
			return all
		},
		Devices: func() []rdmatransport.Device {
			if k := m.keeper.Load(); k != nil {
				return k.Hosts.Devices()
			}
			return nil
		},
		NBD: func() nbd.Stats {
			if k := m.keeper.Load(); k != nil {
				return k.NBD()
			}
			return nbd.Stats{}
		},
	}
}
