package attachcommand

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// measured holds the sources of the metrics, which are added as they come to exist.
type measured struct {
	version   string
	front     *front
	hosts     atomic.Pointer[hosts.Pool]            // nil: not yet
	subsystem atomic.Pointer[connections.Subsystem] // likewise
}

func (m *measured) source() scrape.Source {
	return scrape.Source{
		Version: m.version, NBD: m.front.stats,
		Subsystems: func() []metrics.HostSubsystem {
			s := m.subsystem.Load()
			if s == nil {
				return nil
			}
			return []metrics.HostSubsystem{{Measures: (*s).Measure()}}
		},
		Devices: func() []rdmatransport.Device {
			h := m.hosts.Load()
			if h == nil {
				return nil
			}
			return h.Devices()
		},
	}
}
