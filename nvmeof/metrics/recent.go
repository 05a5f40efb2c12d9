package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nvmeof-go/nvmeof/internal/recent"
)

// A gatherer gathers no more often than each second, so that clients who ask without end do not
// keep shards busy.
type gatherer struct {
	prometheus.Gatherer
	recent.Reading[[]*dto.MetricFamily]
}

// Gather implements prometheus.Gatherer. What it returns is not changed by anybody.
func (g *gatherer) Gather() ([]*dto.MetricFamily, error) { return g.Get(g.Gatherer.Gather) }
